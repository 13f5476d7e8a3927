"""A fleet of workers on one PostgreSQL store: jobs wake sessions, workers run them."""
