"""Commands on question sessions."""
