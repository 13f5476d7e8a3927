"""Agents: whoever does the work of a phase, behind one port.

from tools.workflows.agents import CommandAgent, RecordedAgent

agent = CommandAgent("claude -p")           # prompt on standard input, answer on standard output
agent = RecordedAgent("examples/recordings/session_domain")
"""

from tools.workflows.agents.command import CommandAgent
from tools.workflows.agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentCutOff,
    AgentFailed,
    AgentOption,
    AgentQuestion,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
    PhaseAgent,
    TokenUsage,
)
from tools.workflows.agents.recorded import RecordedAgent, Recorder

__all__ = [
    "AgentAnswer",
    "AgentCrashed",
    "AgentCutOff",
    "AgentFailed",
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
