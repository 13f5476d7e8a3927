"""The command `agentforge-hook`, which agent programs call at each event of a conversation."""
