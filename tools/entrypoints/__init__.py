"""Entry points for people and programs: the command line, the MCP server, the terminal."""
