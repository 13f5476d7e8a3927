"""From the words that name an agent to the agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from ...base.program_run import ProgramRunner
from .command import DEFAULT_TIMEOUT_S, CommandAgent
from .port import AgentChoice, PhaseAgent
from .program import ProgramAgent, is_program
from .recorded import RecordedAgent

RECORDED: Final = "recorded:"
HTTP: Final = ("openai:", "anthropic:")


def parse_agent(
    text: str, *, timeout_s: float | None = None, max_output: int | None = None
) -> AgentChoice:
    """Read how an agent is named on a command line.

    Args:
        text: `claude` or `codex`, with `:MODEL` for a model; `recorded:DIR`; `openai:MODEL`,
            `anthropic:MODEL`, each with `@URL` for another endpoint; anything else is a command
            line.
        timeout_s: How long an answer may take, in seconds.
        max_output: The most tokens of an endpoint's answer.

    Raises:
        ValueError: It names nothing, a command whose quotes are not closed, or an address that is
            none.
    """
    if text.startswith(RECORDED):
        directory = text.removeprefix(RECORDED)
        if not directory:
            raise ValueError("agent: recorded: names no directory")
        return AgentChoice(kind="recorded", value=os.path.abspath(directory))
    if text.startswith(HTTP):
        from .http import agent_of

        agent_of(text)  # says what is wrong with it
        return AgentChoice(kind="http", value=text, timeout_s=timeout_s, max_output=max_output)
    if is_program(text):
        return AgentChoice(kind="program", value=text, timeout_s=timeout_s)
    CommandAgent(text)  # says what is wrong with it
    return AgentChoice(kind="command", value=text, timeout_s=timeout_s)


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
        AgentUnavailable: It needs an extra that is not installed.
    """
    if choice.kind == "recorded":
        return RecordedAgent(choice.value)
    if choice.kind == "http":
        from .http import agent_of

        return agent_of(choice.value, timeout_s=choice.timeout_s, max_output=choice.max_output)
    if choice.kind == "command":
        made: type[CommandAgent | ProgramAgent] = CommandAgent
    elif choice.kind == "program":
        made = ProgramAgent
    else:
        raise ValueError(f"agent: {choice.kind!r} is no kind of agent")
    timeout_s = choice.timeout_s or DEFAULT_TIMEOUT_S
    return made(choice.value, timeout_s=timeout_s, environment=environment, runner=runner)
