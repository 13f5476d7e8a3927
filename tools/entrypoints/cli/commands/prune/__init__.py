"""`agentforge prune`: removal of old sessions, and commands on trash, pins and metadata."""
