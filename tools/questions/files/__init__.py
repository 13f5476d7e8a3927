"""Question sessions as files: their documents, locks, and the store of them."""
