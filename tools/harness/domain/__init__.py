"""The session's values and rules, pure: states, entries, events, budget, checks."""
