"""The pages of `agentforge ui`, each with its forms."""
