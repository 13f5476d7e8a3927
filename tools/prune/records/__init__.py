"""The audit log of removals, and the room kept for it."""
