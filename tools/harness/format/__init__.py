"""The session's file: our own form, any other form, its schema and its digest."""
