"""The state of an agent's work, folded from its conversations, with which the next one is briefed.

All of it was said by persons and programs: it is data, never an instruction.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypedDict

from .quotation import name_of, quoted

_MAX_PROMPT: Final = 1200
_MAX_INSTRUCTIONS: Final = 10
_MAX_PLAN: Final = 30
_MAX_DECISIONS: Final = 15
_MAX_CHANGED: Final = 40
_MAX_OUTPUT: Final = 12
_MAX_OUTPUT_LINE: Final = 160
_STATUS: Final = {"completed": "done", "in_progress": "at work on"}
_PERSON: Final = "person"


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


class DecisionMade(NamedTuple):
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
    decisions: tuple[DecisionMade, ...] = ()
    """The newest first."""
    failed: FailedCommand | None = None
    program: str = ""
    """The program in whose conversation all this was said; empty if it is not known."""


NOTHING_KNOWN: Final = WorkState()


class KnownWork(TypedDict):
    """What a briefing shows beside the session itself: arguments of `briefing.brief`."""

    work: WorkState
    changed: str
    steps: Sequence[str]


def asked_lines(work: WorkState, may_show: Callable[[str], bool]) -> list[str]:
    """Return what the person asked for: the standing instructions, the prompt that is not done.

    `may_show` is that of `briefing.brief`, here and below.
    """
    if not may_show(work.program):
        return []
    lines = [
        f"Standing instruction{_by(_PERSON, work)}: {quoted(one)}"
        for one in work.instructions[-_MAX_INSTRUCTIONS:]
    ]
    if work.prompt:
        said = quoted(work.prompt, limit=_MAX_PROMPT)
        lines.append(f"Asked last{_by(_PERSON, work)}, and not done: {said}")
    return lines


def work_sections(
    work: WorkState, changed: str, may_show: Callable[[str], bool]
) -> tuple[tuple[str, list[str]], ...]:
    """Return the sections of the work's state, each with its heading, the most important first."""
    files = changed.splitlines() if may_show("") else []  # any program may have named them
    stat = [f"- {quoted(line)}" for line in files[-_MAX_CHANGED:] if line.strip()]
    if not may_show(work.program):
        return (("Files changed since the session began", stat),)
    return (
        (f"The plan of the agent{_in(work)}", _plan_lines(work.plan)),
        (
            "Decisions, newest first",
            [
                f"- decided{_by(one.by, work)}: {quoted(one.text)}"
                for one in work.decisions[:_MAX_DECISIONS]
                if one.by == _PERSON or may_show(one.by)
            ],
        ),
        ("Files changed since the session began", stat),
        ("The last command that failed, with its last lines", _failed_lines(work)),
    )


def _plan_lines(plan: tuple[PlanItem, ...]) -> list[str]:
    """Return the steps in their order; if they are many, without the first ones that are done."""
    surplus, lines = len(plan) - _MAX_PLAN, []
    for item in plan:
        status = _STATUS.get(item.status, "to do")
        if surplus > 0 and status == "done":
            surplus -= 1
        else:
            lines.append(f"- {status}: {quoted(item.text)}")
    return lines[:_MAX_PLAN]


def _failed_lines(work: WorkState) -> list[str]:
    failed = work.failed
    if failed is None:
        return []
    code = "" if failed.exit_code is None else f" with exit code {failed.exit_code}"
    lines = [line for line in failed.output.splitlines() if line.strip()]
    return [
        f"- failed{code}{_in(work)}: {quoted(failed.command)}",
        *[f"  - {quoted(line, limit=_MAX_OUTPUT_LINE)}" for line in lines[-_MAX_OUTPUT:]],
    ]


def _by(who: str, work: WorkState) -> str:
    if who == _PERSON:
        return f", by a person to {name_of(work.program)}" if work.program else ", by a person"
    return f", by the agent in {name_of(who)}" if who else ", by an agent"


def _in(work: WorkState) -> str:
    return f" in {name_of(work.program)}" if work.program else ""
