"""A workspace while it is served: opening, lock, usage, quota, changes."""
