"""What an agent is shown, what it answers, and what it may write."""
