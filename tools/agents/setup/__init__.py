"""Install our files in the agent programs that people run, and remove exactly these."""
