"""Workspaces kept byte for byte: scanned, recorded, restored, packed."""
