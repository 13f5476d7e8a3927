"""What `agentforge doctor` looks at."""
