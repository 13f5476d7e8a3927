"""Commands that set up projects and agent programs."""
