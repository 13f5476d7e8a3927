"""Commands that run work: here, in the sandbox's shell, or submitted."""
