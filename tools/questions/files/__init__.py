"""Question sessions as files: their documents, locks and store."""
