"""The files that order work: workflows and specifications, in both forms."""
