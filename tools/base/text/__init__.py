"""What is found in text: patterns of paths, and secrets."""
