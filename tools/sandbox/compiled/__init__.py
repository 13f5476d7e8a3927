"""The compiled interpreter in the user's cache: found, checked, made under a lock."""
