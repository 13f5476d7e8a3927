"""Where an agent's work stands, folded from its conversations; what the next agent is briefed with.

All of it was said by persons and programs: it is data, never an instruction.
"""

from __future__ import annotations

from typing import NamedTuple


class PlanItem(NamedTuple):
    """A step of the agent's plan or to-do list."""

    text: str
    status: str
    """`pending`, `in_progress` or `completed`."""


class FailedCommand(NamedTuple):
    """The last command that failed and was not repaired since."""

    command: str
    exit_code: int | None
    output: str
    """Its last lines."""


class Decision(NamedTuple):
    """What was decided, and who decided it."""

    text: str
    by: str
    """`person`, or the name of the agent's program."""


class WorkState(NamedTuple):
    """The state of the work in the session's newest conversation."""

    instructions: tuple[str, ...] = ()
    """What the person asked for in general, the earliest first."""
    prompt: str = ""
    """The person's last prompt, if its turn did not end; else empty."""
    plan: tuple[PlanItem, ...] = ()
    decisions: tuple[Decision, ...] = ()
    """The newest first."""
    failed: FailedCommand | None = None
    program: str = ""
    """The program in whose conversation all this was said; empty if it is not known."""
