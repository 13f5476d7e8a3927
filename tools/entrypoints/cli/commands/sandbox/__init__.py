"""`agentforge sandbox`: run code in workspaces, and manage sessions and their files."""
