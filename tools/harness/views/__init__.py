"""What is read off sessions, pure: heads, pages, filters, checkpoints, the briefing."""
