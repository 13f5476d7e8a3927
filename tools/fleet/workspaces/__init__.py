"""Workspaces on several machines: their snapshots in the object store, and the local copies."""
