"""The contents of a session's page as plain values; no HTML."""
