"""An agent program by its name: asked once, without tools, in an empty folder.

`claude`, `codex`, `gemini` and `opencode`, with `:MODEL` for another model than the program's own.
The program sees the prompt and nothing else, and its own report says what it cost. Our hooks in it
are silent.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...base.program_run import ProgramRunner
from .command import DEFAULT_TIMEOUT_S, CommandAgent
from .command_output import COMMANDS, ProgramOutput
from .port import (
    AgentAnswer,
    AgentCrashed,
    AgentFailed,
    AgentIdentity,
    AgentParameters,
    AgentRequest,
)
from .printed_usage import no_answer, usage_of

_FOLDER_PREFIX: Final = "agentforge-agent-"
_KEPT_OUTPUT: Final = 2_000
_PROVIDERS: Final = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""Whose models the programs ask; opencode asks anybody's."""


def is_program(text: str) -> bool:
    """Return whether a text names an agent program, with or without a model."""
    name, _, model = text.partition(":")
    return name in COMMANDS and (":" not in text or bool(model.strip()))


def program_identity(name: str) -> AgentIdentity:
    """Return who a program is, by its name with `:MODEL` or without."""
    program, _, model = name.partition(":")
    return AgentIdentity(
        name=program, provider=_PROVIDERS.get(program, program), model=model or None
    )


def make_agent(text: str, settings: AgentParameters) -> ProgramAgent:
    """Make the agent that a program's name names.

    Raises:
        ValueError: There is no such program, or the limit is none.
    """
    return ProgramAgent(
        text,
        timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        environment=settings.environment,
        runner=settings.runner,
    )


class ProgramAgent:
    """Asks an agent program.

    Args:
        name: The program, with `:MODEL` for a model of its.
        timeout_s: How long one answer may take, in seconds, above 0.
        environment: Its environment; the caller's if None.
        runner: What runs it; as this process's own if None.
        monotonic: The clock of the time limit.

    Raises:
        ValueError: There is no such program, or the limit is none.
    """

    def __init__(
        self,
        name: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        runner: ProgramRunner | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not is_program(name):
            raise ValueError(f"agent: {name!r} names no agent program")
        program, _, model = name.partition(":")
        self._name = name
        self._program = COMMANDS[program]
        self._command = CommandAgent(
            self._program.command(model or None),
            timeout_s=timeout_s,
            environment=_with(self._program.environment, environment),
            runner=runner,
            monotonic=monotonic,
        )

    @property
    def description(self) -> str:
        """The program, and its model where one was named."""
        return self._name

    @property
    def identity(self) -> AgentIdentity:
        """The program, its vendor, and its model where one was named."""
        return program_identity(self._name)

    def check(self) -> None:
        """See whether there is such a program; it is not run.

        Raises:
            AgentUnavailable: There is none, or it may not be run.
        """
        self._command.check()

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Ask the program.

        Raises:
            AgentFailed: It ended without an answer; the error has its reason, and what it cost.
        """
        with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as empty:
            for path, text in self._program.files.items():
                file = Path(empty, path)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            try:
                printed = self._command.answer(request, directory=Path(empty)).text
            except AgentCrashed as error:
                found = self._program.read(error.output)
                if found is None or found.problem is None:
                    raise
                raise self._no_answer(found, error.output) from error
        found = self._program.read(printed)
        if found is None:
            raise AgentFailed(
                f"the agent ({self._name}) printed something else than its JSON",
                agent=self._name,
                output=printed[-_KEPT_OUTPUT:],
            )
        if found.problem is not None or not found.text.strip():
            raise self._no_answer(found, printed)
        return AgentAnswer(text=found.text, usage=usage_of(found))

    def _no_answer(self, found: ProgramOutput, printed: str) -> AgentFailed:
        return no_answer(found, agent=self._name, output=printed[-_KEPT_OUTPUT:])


def _with(more: Mapping[str, str], given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return an environment with a program's own variables; None is the caller's as it is."""
    return {**(os.environ if given is None else given), **more} if more else given
