"""The pages of `agentforge ui` and their forms."""
