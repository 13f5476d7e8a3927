"""A person's project: its configuration file, its kind, and its first files."""
