"""What is installed: the wheel with the interpreter, and directories off limits to guests."""
