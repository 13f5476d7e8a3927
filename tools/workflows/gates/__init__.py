"""Gates: what they run, the reports they read, and their verdicts."""
