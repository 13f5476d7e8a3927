"""Questions on the command line."""
