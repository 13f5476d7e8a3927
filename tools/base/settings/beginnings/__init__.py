"""How a project is begun: what it holds, and the files it starts with."""
