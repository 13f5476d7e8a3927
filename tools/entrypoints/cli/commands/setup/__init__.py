"""Commands that set up projects, agent programs, stores and webhooks."""
