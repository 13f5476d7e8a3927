"""Pure views of sessions: heads, pages, filters, checkpoints, the briefing."""
