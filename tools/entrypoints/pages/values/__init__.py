"""What a page shows of a session, as values; no HTML."""
