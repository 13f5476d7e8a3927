"""Removal: locks, the trash, run records, pins, and recovery after a kill."""
