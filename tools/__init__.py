"""AgentForge Harness: durable, resumable sessions for long-running agents."""
