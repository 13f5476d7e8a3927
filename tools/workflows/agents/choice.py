"""Find the agent that a text on the command line names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import evolve

from ...base.data_folder import is_repository
from ...base.plugins import Register
from ...base.program_run import ProgramRunner
from .port import AgentChoice, AgentParameters, AgentUnavailable, PhaseAgent

RECORDED: Final = "recorded:"
HTTP: Final = ("openai:", "anthropic:")
PROGRAMS: Final = ("claude", "codex", "gemini", "opencode")
"""The agent programs that can be named."""
_OWN: Final = {"command": "command", "recorded": "recorded", "openai": "http", "anthropic": "http"}
AGENTS: Final = Register(
    "agents",
    {
        name: f"agentforge_sessions.agents.running.{module}:make_agent"
        for name, module in (_OWN | dict.fromkeys(PROGRAMS, "program")).items()
    },
)
"""Factories of agents, by the word before the first colon: called with the whole text and
`AgentParameters`, each returns a `PhaseAgent`, or raises ValueError if the text is invalid."""
_NAME: Final = re.compile(r"([a-z][a-z0-9_-]{0,63})(?::.*)?", re.DOTALL)
_KINDS: Final = frozenset({"command", "recorded", "http", "program", "plugin"})


def parse_agent(
    text: str, *, timeout_s: float | None = None, max_output: int | None = None
) -> AgentChoice:
    """Parse the name of an agent on the command line.

    Args:
        text: `claude` or `codex`, with `:MODEL` for a model; `recorded:DIR`; `openai:MODEL`,
            `anthropic:MODEL`, each with `@URL` for another endpoint; `NAME` or `NAME:…` of an
            installed plugin; anything else is a command line.
        timeout_s: How long an answer may take, in seconds.
        max_output: The most tokens of an endpoint's answer.

    Raises:
        ValueError: The text is empty, a command with an unclosed quote, or an invalid address.
        PluginUnusable: The plugin's package is broken.
    """
    if text.startswith(RECORDED):
        directory = text.removeprefix(RECORDED)
        if not directory:
            raise ValueError("agent: recorded: names no directory")
        return AgentChoice(kind="recorded", value=os.path.abspath(directory))
    kind = _kind_of(text)
    choice = AgentChoice(kind=kind, value=text, timeout_s=timeout_s, max_output=max_output)
    if kind != "program":
        make_agent(choice)  # raises if the agent can't be made
    return choice if kind in {"http", "plugin"} else evolve(choice, max_output=None)


def is_program(text: str) -> bool:
    """Return whether a text names an agent program, with or without a model."""
    name, _, model = text.partition(":")
    return name in PROGRAMS and (":" not in text or bool(model.strip()))


def _kind_of(text: str) -> str:
    if text.startswith(HTTP):
        return "http"
    if is_program(text):
        return "program"
    named = _NAME.fullmatch(text)
    is_plugin = named is not None and named[1] not in AGENTS.own and AGENTS.find(named[1])
    return "plugin" if is_plugin else "command"


def check_agent(agent: PhaseAgent, *, first_phase: str | None = None) -> None:
    """Check that an agent is available, before anything is started for it; the agent is not called.

    Args:
        agent: The agent; one without `check` passes.
        first_phase: The first phase that calls it, or None if unknown.

    Raises:
        AgentUnavailable: The agent is not available.
    """
    check_phase = getattr(agent, "check_phase", None)
    if first_phase is not None and callable(check_phase):
        check_phase(first_phase)
    check = getattr(agent, "check", None)
    if callable(check):
        check()


def require_own_program(choice: AgentChoice) -> None:
    """Refuse an agent program that `PATH` finds in the repository of the working directory.

    A repository does not choose the program that gets the person's login.

    Raises:
        AgentUnavailable: The program is in the repository.
    """
    import shutil

    found = shutil.which(choice.value.partition(":")[0]) if choice.kind == "program" else None
    if found is not None and is_in_repository_of(Path.cwd(), found):
        raise AgentUnavailable(
            agent=choice.value,
            problem=f"PATH leads to {found}, which is in this repository; a repository does not "
            "choose the program that gets your login. Leave its folder out of PATH",
        )


def is_in_repository_of(folder: Path, program: str) -> bool:
    """Return whether a program is in the repository around a folder, unless that is the home's."""
    top = next((one for one in (folder, *folder.parents) if is_repository(one)), None)
    if top is None or os.path.realpath(top) == os.path.realpath(os.path.expanduser("~")):
        return False
    place = Path(os.path.abspath(program)).parent
    return any(one.is_relative_to(top.resolve()) for one in (place, place.resolve()))


def make_agent(
    choice: AgentChoice,
    *,
    runner: ProgramRunner | None = None,
    environment: Mapping[str, str] | None = None,
) -> PhaseAgent:
    """Create the agent of a choice.

    Args:
        choice: The agent.
        runner: Runs a command or a program; as this process runs programs if None.
        environment: The environment of a command or program; this process's own if None.

    Raises:
        ValueError: The kind is unknown here, or the value is invalid.
        PluginUnusable: The plugin's package is broken.
        AgentUnavailable: It needs an extra that is not installed, or see `require_own_program`.
    """
    require_own_program(choice)
    kind, text = choice.kind, choice.text
    name = kind if kind == "command" else text.partition(":")[0]
    found = AGENTS.find(name) if kind in _KINDS else None
    if found is None:
        raise ValueError(f"agent: {text[:80]!r} ({kind}) is no agent known here")
    settings = AgentParameters(
        timeout_s=choice.timeout_s,
        max_output=choice.max_output,
        runner=runner,
        environment=environment,
    )
    made: PhaseAgent = found.load()(text, settings)
    return made
