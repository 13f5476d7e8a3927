"""The command `agentforge-hook`; agent programs call it at each event of a conversation."""
