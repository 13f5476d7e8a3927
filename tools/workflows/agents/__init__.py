"""Agents, which do the work of a phase, behind one port.

from agentforge_sessions.workflows.agents import (CommandAgent, RecordedAgent)

agent = CommandAgent("claude -p")           # prompt on standard input, answer on standard output
agent = RecordedAgent("examples/recordings/session_domain")
"""

from .command import CommandAgent
from .port import (
    AgentAnswer,
    AgentCrashed,
    AgentCutOff,
    AgentFailed,
    AgentIdentity,
    AgentOption,
    AgentQuestion,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
    PhaseAgent,
    TokenUsage,
)
from .recorded import RecordedAgent, Recorder

__all__ = [
    "AgentAnswer",
    "AgentCrashed",
    "AgentCutOff",
    "AgentFailed",
    "AgentIdentity",
    "AgentOption",
    "AgentQuestion",
    "AgentRequest",
    "AgentTimeout",
    "AgentUnavailable",
    "CommandAgent",
    "PhaseAgent",
    "RecordedAgent",
    "Recorder",
    "TokenUsage",
]
