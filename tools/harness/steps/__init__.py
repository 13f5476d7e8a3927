"""The steps of a person's own program, in a log beside its session."""
