"""The audit log of removals, and the disk space reserved for it."""
