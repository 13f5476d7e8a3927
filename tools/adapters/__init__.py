"""What connects the port of one package to another package."""
