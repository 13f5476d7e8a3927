"""Agents that answer a phase's prompt: commands, agent programs, HTTP models, recordings.

    from agentforge_sessions.agents.running import CommandAgent, RecordedAgent

    agent = CommandAgent("claude -p")  # the prompt on standard input, the answer on standard output
    agent = RecordedAgent("examples/recordings/session_domain")

They implement `workflows.agents.port.PhaseAgent`; `workflows.agents.choice` finds them by name.
Agents that edit in place (`agent_jail`) run in a jail, each call on a copy of the workspace.
"""

from .command import CommandAgent
from .recorded import RecordedAgent, Recorder

__all__ = ["CommandAgent", "RecordedAgent", "Recorder"]
