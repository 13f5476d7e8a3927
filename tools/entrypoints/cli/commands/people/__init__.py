"""Commands for people and their AI clients: questions, screens, the MCP server."""
