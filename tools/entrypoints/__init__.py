"""Where people and programs come in: the command line, the MCP server, the terminal."""
