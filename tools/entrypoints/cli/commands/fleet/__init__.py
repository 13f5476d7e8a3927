"""Commands of a fleet, and of the store that it shares."""
