"""Workspaces of sandbox sessions: files, metadata, repair, deletion."""
