"""The documents that describe work: workflows and specifications, in both forms."""
