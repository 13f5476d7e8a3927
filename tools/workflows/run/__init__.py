"""One run: the loop, attempts, the journal, the conversation with an agent."""
