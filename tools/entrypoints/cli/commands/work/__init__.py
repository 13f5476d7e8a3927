"""Commands that run work."""
