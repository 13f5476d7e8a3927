"""Our place in the agent programs that people run: put there, and taken away exactly."""
