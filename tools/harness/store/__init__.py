"""Sessions in directories: reading, deleting, copying, streams, whose they are."""
