"""The command line: `agentforge`, for people at a terminal and for scripts that read JSON."""
