"""What answers a phase's prompt: any command, an agent program, a model behind HTTP, recordings.

    from agentforge_sessions.agents.running import CommandAgent, RecordedAgent

    agent = CommandAgent("claude -p")  # the prompt on standard input, the answer on standard output
    agent = RecordedAgent("examples/recordings/session_domain")

They implement `workflows.agents.port.PhaseAgent`; `workflows.agents.choice` finds them by name.
Those that edit in place (`agent_jail`) work in a jail, each call in a copy of the workspace.
"""

from .command import CommandAgent
from .recorded import RecordedAgent, Recorder

__all__ = ["CommandAgent", "RecordedAgent", "Recorder"]
