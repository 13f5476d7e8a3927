"""The tools of the MCP server, by what they work on."""
