"""The compiled interpreter in the user's cache: found, checked, built under a lock."""
