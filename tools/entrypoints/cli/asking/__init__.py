"""Questions at the command line."""
