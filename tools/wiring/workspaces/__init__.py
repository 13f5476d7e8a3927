"""Workspaces of sessions: saved at checkpoints, applied to checkouts, moved between machines."""
