"""The one place that runs git, and what of its objects and settings is used."""
