"""`agentforge prune`: the removal of old sessions, and the commands on trash, pins and metadata."""
