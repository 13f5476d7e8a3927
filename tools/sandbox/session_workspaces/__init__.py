"""The workspaces of sandbox sessions: files, metadata, repair, deletion."""
