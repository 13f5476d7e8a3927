"""Archives of what was removed: written, read, and what a killed writer left."""
