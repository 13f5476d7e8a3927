"""Byte-exact copies of workspaces: scanned, recorded, restored, packed."""
