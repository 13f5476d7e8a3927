"""What happened, told to others: the log, observers, spans, feeds and receivers."""
