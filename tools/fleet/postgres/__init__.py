"""Sessions in PostgreSQL, for many machines; the extra `postgres`."""
