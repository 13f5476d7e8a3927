"""What is installed: the wheel that carries the interpreter, and where it may not work."""
