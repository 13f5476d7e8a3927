"""Output of the command line: text, tables, documents, errors, logs."""
