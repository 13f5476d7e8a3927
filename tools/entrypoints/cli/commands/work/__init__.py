"""Commands that run work, here and in a fleet."""
