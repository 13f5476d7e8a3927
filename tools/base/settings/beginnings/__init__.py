"""How a project is set up: what it contains, and the files it starts with."""
