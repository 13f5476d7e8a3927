"""An agent program by its name: called once, without tools, in an empty folder.

`claude`, `codex`, `gemini` and `opencode`, with `:MODEL` for another model than the program's own.
The program sees the prompt and nothing else, and its own report gives the cost. Our hooks in it do
nothing during the call.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from ...base.program_run import ProgramRunner
from ...workflows.agents.choice import is_program
from ...workflows.agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentFailed,
    AgentIdentity,
    AgentParameters,
    AgentRequest,
)
from .command import DEFAULT_TIMEOUT_S, CommandAgent
from .printed_output import (
    ProgramOutput,
    no_answer,
    read_claude_output,
    read_codex_output,
    read_gemini_output,
    read_opencode_output,
    usage_of,
)

_FOLDER_PREFIX: Final = "agentforge-agent-"
_KEPT_OUTPUT: Final = 2_000
_PROVIDERS: Final = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""The vendors of the programs' models; opencode can call any vendor's."""


class ProgramCommand(NamedTuple):
    """A single call of a program: prompt on standard input, no tools or settings of the person.

    Attributes:
        words: The command line.
        model_option: The words before a model's name.
        last_words: The words after it.
        read: Parses the output; None if it is not the program's form.
        environment: Variables added to the caller's.
        files: Files in its working directory, which is otherwise empty.
    """

    words: tuple[str, ...]
    model_option: str
    last_words: tuple[str, ...]
    read: Callable[[str], ProgramOutput | None]
    environment: Mapping[str, str] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})

    def command(self, model: str | None) -> list[str]:
        """Return the command line for a model, or for the program's own choice."""
        named = [self.model_option, model] if model else []
        return [*self.words, *named, *self.last_words]


_NO_TOOLS: Final = "You answer the message that you are given. You have no tools."
_GEMINI_SETTINGS: Final = {
    "tools": {"core": []},
    "hooksConfig": {"enabled": False},
    "skills": {"enabled": False},
    "model": {"disableLoopDetection": True},  # it mistakes repeated lines of code for a loop
    "experimental": {"enableAgents": False},
    "context": {"fileName": "none.md"},
}
"""Settings of the folder, which override the person's: no tools, and none of theirs."""
_OPENCODE_CONFIG: Final = {
    "agent": {
        "agentforge": {
            "mode": "primary",
            "prompt": _NO_TOOLS,
            "permission": {"*": "deny"},
        }
    }
}
"""An opencode agent without tools."""

COMMANDS: Final[Mapping[str, ProgramCommand]] = MappingProxyType(
    {
        "claude": ProgramCommand(
            (
                *("claude", "-p", "--tools", "", "--setting-sources", ""),
                *("--strict-mcp-config", "--output-format", "json"),
            ),
            "--model",
            (),
            read_claude_output,
        ),
        "codex": ProgramCommand(
            ("codex", "exec", "--json", "-s", "read-only", "--skip-git-repo-check"),
            "-m",
            ("-",),
            read_codex_output,
        ),
        "gemini": ProgramCommand(
            ("gemini", "-o", "json", "-e", "none"),
            "--model",
            (),
            read_gemini_output,
            MappingProxyType(
                {
                    "GEMINI_CLI_TRUST_WORKSPACE": "true",  # for the folder with these files only
                    "GEMINI_SYSTEM_MD": ".gemini/system.md",
                }
            ),
            MappingProxyType(
                {
                    ".gemini/settings.json": json.dumps(_GEMINI_SETTINGS),
                    ".gemini/system.md": f"{_NO_TOOLS}\n",
                }
            ),
        ),
        "opencode": ProgramCommand(
            (
                *("opencode", "run", "--pure", "--agent", "agentforge"),
                *("--title", "agentforge", "--format", "json"),
            ),
            "--model",
            (),
            read_opencode_output,
            MappingProxyType(
                {
                    "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE_CONFIG),
                    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
                }
            ),
        ),
    }
)
"""How to call each program, by the name of its command."""


def program_identity(name: str) -> AgentIdentity:
    """Return a program's identity, by its name with or without `:MODEL`."""
    program, _, model = name.partition(":")
    return AgentIdentity(
        name=program, provider=_PROVIDERS.get(program, program), model=model or None
    )


def make_agent(text: str, settings: AgentParameters) -> ProgramAgent:
    """Create the agent of a program by its name.

    Raises:
        ValueError: The program is unknown, or the limit is not above 0.
    """
    return ProgramAgent(
        text,
        timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        environment=settings.environment,
        runner=settings.runner,
    )


class ProgramAgent(CommandAgent):
    """An agent that calls an agent program in the program's own way and parses its output."""

    def __init__(
        self,
        name: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        runner: ProgramRunner | None = None,
    ) -> None:
        """Check the name; see `CommandAgent` for the rest.

        Raises:
            ValueError: The program is unknown, or the limit is not above 0.
        """
        if not is_program(name):
            raise ValueError(f"agent: {name!r} names no agent program")
        program, _, model = name.partition(":")
        self._name = name
        self._program = COMMANDS[program]
        more = self._program.environment
        if more:
            environment = {**(os.environ if environment is None else environment), **more}
        super().__init__(
            self._program.command(model or None),
            timeout_s=timeout_s,
            environment=environment,
            runner=runner,
        )

    @property
    def description(self) -> str:
        """The program, and its model if one was named."""
        return self._name

    @property
    def identity(self) -> AgentIdentity:
        """The program, its vendor, and its model if one was named."""
        return program_identity(self._name)

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Call the program.

        Raises:
            AgentFailed: It ended without an answer; the error has the reason and the cost.
        """
        with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as empty:
            for path, text in self._program.files.items():
                file = Path(empty, path)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            try:
                printed = self.printed(request, Path(empty))
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
