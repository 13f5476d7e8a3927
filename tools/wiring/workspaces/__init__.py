"""Workspaces of sessions: kept at checkpoints, brought home, and carried to other machines."""
