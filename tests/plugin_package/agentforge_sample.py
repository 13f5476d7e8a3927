"""A plugin of each kind, as another package would have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from attrs import frozen

from agentforge_sessions.harness import PhaseResult, SessionEvent
from agentforge_sessions.harness.session_ports import LocalSessions
from agentforge_sessions.harness.session_store import SessionStore
from agentforge_sessions.integrations.observers.observing import ObserverParameters
from agentforge_sessions.wiring.phases.executors import ExecutorParameters
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentParameters,
    AgentRequest,
    TokenUsage,
)


def open_shelf(address: str, base_path: Path | None) -> LocalSessions:
    """Open the sessions in the folder that `shelf:///FOLDER` names."""
    del base_path
    return SessionStore(address.removeprefix("shelf://"))


class Echo:
    """Runs nothing: a phase succeeds and has printed its own code."""

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        del session_id, deadline_s, fuel, files
        return PhaseResult(success=True, exit_code=0, stdout=f"echo: {code}", duration_s=0.0)


def make_executor(store: LocalSessions, parameters: ExecutorParameters) -> Echo:
    """Make the executor."""
    del store, parameters
    return Echo()


@frozen
class Parrot:
    """Answers with what it was named with."""

    words: str

    @property
    def description(self) -> str:
        return f"a parrot that says {self.words}"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        del request
        return AgentAnswer(text=self.words, usage=TokenUsage(input_tokens=0, output_tokens=1))


def make_agent(text: str, parameters: AgentParameters) -> Parrot:
    """Make the agent that `parrot:WORDS` names."""
    del parameters
    words = text.partition(":")[2]
    if not words:
        raise ValueError("agent: a parrot needs words: parrot:WORDS")
    return Parrot(words)


@frozen
class Ledger:
    """Writes the name of each event into a file."""

    path: Path

    def on_event(self, event: SessionEvent) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{event.name}\n")


def make_observers(parameters: ObserverParameters) -> list[Ledger]:
    """Make the observer that `[[observers]]` with `file` asks for."""
    return [Ledger(Path(parameters.given["file"]))]


def add_to(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("greet")
    def greet(name: Annotated[str, typer.Argument()]) -> None:
        """Greet somebody."""
        typer.echo(f"Hello {name}")
