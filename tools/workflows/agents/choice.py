"""From the words that name an agent to the agent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from attrs import evolve

from ...base.plugins import Register
from ...base.program_run import ProgramRunner
from .command import DEFAULT_TIMEOUT_S, CommandAgent
from .command_output import COMMANDS
from .port import AgentChoice, AgentParameters, PhaseAgent
from .program import is_program
from .recorded import RecordedAgent

RECORDED: Final = "recorded:"
HTTP: Final = ("openai:", "anthropic:")
_PROGRAM: Final = "agentforge_sessions.workflows.agents.program:make_agent"
_HTTP: Final = "agentforge_sessions.workflows.agents.http:make_agent"
AGENTS: Final = Register(
    "agents",
    {
        "recorded": "agentforge_sessions.workflows.agents.recorded:make_agent",
        "openai": _HTTP,
        "anthropic": _HTTP,
        **dict.fromkeys(COMMANDS, _PROGRAM),
    },
)
"""What makes an agent, by the word before the first colon: called with the whole text and
`AgentParameters`, it returns a `PhaseAgent`, or raises ValueError where the text names none."""
_NAME: Final = re.compile(r"([a-z][a-z0-9_-]{0,63})(?::.*)?", re.DOTALL)


def parse_agent(
    text: str, *, timeout_s: float | None = None, max_output: int | None = None
) -> AgentChoice:
    """Read how an agent is named on a command line.

    Args:
        text: `claude` or `codex`, with `:MODEL` for a model; `recorded:DIR`; `openai:MODEL`,
            `anthropic:MODEL`, each with `@URL` for another endpoint; `NAME` or `NAME:…` of an
            installed plugin; anything else is a command line.
        timeout_s: How long an answer may take, in seconds.
        max_output: The most tokens of an endpoint's answer.

    Raises:
        ValueError: It names nothing, a command whose quotes are not closed, or an address that is
            none.
        PluginUnusable: The package that adds it is broken.
    """
    if text.startswith(RECORDED):
        directory = text.removeprefix(RECORDED)
        if not directory:
            raise ValueError("agent: recorded: names no directory")
        return AgentChoice(kind="recorded", value=os.path.abspath(directory))
    kind = _kind_of(text)
    choice = AgentChoice(kind=kind, value=text, timeout_s=timeout_s, max_output=max_output)
    if kind != "program":
        make_agent(choice)  # says what is wrong with it
    return choice if kind in {"http", "plugin"} else evolve(choice, max_output=None)


def _kind_of(text: str) -> str:
    if text.startswith(HTTP):
        return "http"
    if is_program(text):
        return "program"
    named = _NAME.fullmatch(text)
    is_plugin = named is not None and named[1] not in AGENTS.own and AGENTS.find(named[1])
    return "plugin" if is_plugin else "command"


def check_agent(agent: PhaseAgent, *, first_phase: str | None = None) -> None:
    """See whether an agent can be asked, before anything is begun for it; it is not asked.

    Args:
        agent: The agent; one of another make than those of this package is taken as it is.
        first_phase: The phase that it is asked for first, or None where that is not known.

    Raises:
        AgentUnavailable: It can't.
    """
    if isinstance(agent, RecordedAgent):
        agent.check(first_phase)
        return
    check = getattr(agent, "check", None)
    if callable(check):
        check()


def make_agent(
    choice: AgentChoice,
    *,
    runner: ProgramRunner | None = None,
    environment: Mapping[str, str] | None = None,
) -> PhaseAgent:
    """Make the agent that was named.

    Args:
        choice: The agent.
        runner: What runs a command or a program; as this process's own if None.
        environment: The environment of either; this process's own if None.

    Raises:
        ValueError: Its kind is none that is known here, or its value is none.
        PluginUnusable: The package that adds it is broken.
        AgentUnavailable: It needs an extra that is not installed.
    """
    settings = AgentParameters(
        timeout_s=choice.timeout_s,
        max_output=choice.max_output,
        runner=runner,
        environment=environment,
    )
    if choice.kind == "command":
        return CommandAgent(
            choice.value,
            timeout_s=choice.timeout_s or DEFAULT_TIMEOUT_S,
            environment=environment,
            runner=runner,
        )
    found = AGENTS.find(choice.text.partition(":")[0]) if choice.kind in _NAMED else None
    if found is None:
        raise ValueError(f"agent: {choice.text[:80]!r} ({choice.kind}) is no agent known here")
    made: PhaseAgent = found.load()(choice.text, settings)
    return made


_NAMED: Final = frozenset({"recorded", "http", "program", "plugin"})
