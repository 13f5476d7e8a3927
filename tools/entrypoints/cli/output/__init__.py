"""What the command line prints: text, tables, documents, errors, logs."""
