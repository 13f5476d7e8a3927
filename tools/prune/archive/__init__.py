"""Archives of removed sessions: writing, reading, and cleaning up after a killed writer."""
