"""The session file: our own form, other YAML and JSON, the schema and the digest."""
