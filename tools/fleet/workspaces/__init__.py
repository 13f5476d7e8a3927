"""Workspaces on several machines: their snapshots in the object store, and what stays here."""
