"""An agent for the embedding examples: recorded answers, counted calls, a worker that dies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import define, field

from agentforge_sessions.agents.running import RecordedAgent
from agentforge_sessions.agents.running.recorded import recording_name
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentRequest,
    PhaseAgent,
)

ROOT: Final = Path(__file__).resolve().parents[2]


class WorkerDied(BaseException):
    """Ends a worker where it is, as a signal would: nothing that catches `Exception` sees it."""


@define
class CountingAgent:
    """Plays the recording of slugs and remembers each call; dies once at the one that is named."""

    dies_at: str | None = None
    behind: PhaseAgent = field(
        factory=lambda: RecordedAgent(ROOT / "examples" / "recordings" / "slugs")
    )
    calls: list[str] = field(factory=list)
    description: str = "counting"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        name = recording_name(request).removesuffix(".md")
        if name == self.dies_at:
            self.dies_at = None
            raise WorkerDied
        self.calls.append(name)
        return self.behind.answer(request)


class SilentAgent:
    """Answers without a file, so that every attempt fails."""

    description = "silent"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        return AgentAnswer(text="I have no idea.")
