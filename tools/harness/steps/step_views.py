"""The steps of a program as commands, pages, documents and briefings show them.

What a program recorded is its author's text, or a stranger's in a clone: here it is on one line and
short; what shows it makes it safe for its own medium.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.files import ReadError
from ..domain.history_events import dollars
from ..errors import HarnessError
from ..session_layout import STEPS_KEY
from ..views.quotation import name_of, quoted
from .entries import STREAM, Kind, StepRecord, decode_head, moment
from .program_sessions import program_of, steps_of
from .tail import included

if TYPE_CHECKING:
    from ..session_domain import SessionContext
    from ..session_ports import SessionRepository

SHOWN: Final = 8
"""How many of the last steps are shown."""
_MAX_ERROR: Final = 400
_LOOKED_AT: Final = 32
"""How many of the last entries are searched for attempts that failed."""


class ShownStep(NamedTuple):
    """A step as it is shown.

    Attributes:
        step: Its path, as `outer#1/inner#2`.
        outcome: "ok"; "failed" if its exception is final; "failing" if it is to be tried again.
        at: When its last attempt started.
        took_s: How long that took, in seconds; None if it is not known.
        tokens: What it cost in tokens.
        micro_usd: What it cost in millionths of a US dollar.
        attempts: How often it was tried.
        error: Why it failed; None if it did not.
    """

    step: str
    outcome: str
    at: datetime
    took_s: float | None
    tokens: int
    micro_usd: int
    attempts: int
    error: str | None = None

    @property
    def cost(self) -> str:
        """What it cost, in words; empty for nothing."""
        return cost_in_words(self.tokens, self.micro_usd)


class ProgramView(NamedTuple):
    """The program of a session, and how far it came.

    Attributes:
        workflow: Its name for this kind of work.
        key: The caller's key.
        recorded: How many steps were recorded, rewound ones included.
        tokens: What it cost in tokens.
        micro_usd: What it cost in millionths of a US dollar, as far as that is known.
        steps: The last steps, oldest first.
        problem: Why they can't be shown; None if they can.
    """

    workflow: str
    key: str
    recorded: int = 0
    tokens: int = 0
    micro_usd: int = 0
    steps: Sequence[ShownStep] = ()
    problem: str | None = None

    @property
    def cost(self) -> str:
        """What it cost, in words; empty for nothing."""
        return cost_in_words(self.tokens, self.micro_usd)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**self._asdict(), "steps": [one._asdict() for one in self.steps]}

    def lines(self) -> list[str]:
        """Return lines for a briefing: the newest step first, all text quoted."""
        if self.problem is not None:
            return [f"- can't be read: {quoted(self.problem)}"]
        spent = f", {self.cost}" if self.cost else ""
        count = f"- {self.recorded:,} recorded by the program {name_of(self.workflow)}{spent}"
        return [count, *map(_line, reversed(self.steps))]


def _line(step: ShownStep) -> str:
    why = f": {quoted(step.error)}" if step.error else ""
    cost = f", {step.cost}" if step.cost else ""
    return f"- {step.at:%Y-%m-%d %H:%M:%S} {name_of(step.step)} {step.outcome}{cost}{why}"


def cost_in_words(tokens: int, micro_usd: int) -> str:
    """Return tokens and dollars in words; empty for nothing."""
    parts = [f"{tokens:,} tokens"] if tokens else []
    return ", ".join([*parts, dollars(micro_usd)] if micro_usd else parts)


def words_to_go_on(sessions: SessionRepository, session_id: str) -> tuple[str, ...]:
    """Return the words of the command that goes on with a session that was cut off or paused."""
    try:
        key = program_of(sessions, session_id).key
    except HarnessError:
        return ("resume", session_id)
    return ("session", "run", "MODULE:FUNCTION", "--key", key)


def is_of_program(session: SessionContext) -> bool:
    """Return whether a session belongs to a program."""
    return STEPS_KEY in session.workflow_state


def program_view(
    sessions: SessionRepository, session: SessionContext, *, last: int = SHOWN
) -> ProgramView | None:
    """Return the program of a session with its last steps; None if it belongs to none.

    The cost does not grow with the number of steps. What can't be read does not fail the view: it
    is said in its place.

    Raises:
        HarnessError: The store does not answer; the same call may succeed later.
    """
    if not is_of_program(session):
        return None
    session_id = session.session_id
    try:
        program = program_of(sessions, session_id)
        counted = included(session)
        found = steps_of(sessions, session_id, last=last)
        steps = [_shown(sessions, session_id, one) for one in found]
        steps += _failing(sessions, session_id)
    except (HarnessError, ReadError) as error:
        if getattr(error, "retryable", False):
            raise
        return ProgramView(session.workflow_type or "", "", problem=str(error))
    return ProgramView(
        program.workflow,
        program.key,
        counted.recorded,
        counted.tokens,
        counted.micro_usd,
        tuple(steps[-last:]),
    )


def _shown(sessions: SessionRepository, session_id: str, record: StepRecord) -> ShownStep:
    has_failed = record.outcome == "failed"
    return ShownStep(
        record.path,
        record.outcome,
        record.at,
        record.took_us / 1e6,
        *record.spent,
        record.attempts,
        _error_of(sessions, session_id, record) if has_failed else None,
    )


def _error_of(sessions: SessionRepository, session_id: str, record: StepRecord) -> str:
    """Return the text of a final exception."""
    mark = sessions.read_last(session_id, STREAM, 1).mark
    body = sessions.read_bodies(session_id, STREAM, [record.entry], mark=mark)[0]
    said: object = None
    with suppress(ValueError, RecursionError):
        said = json.loads(body)
    parts = said if isinstance(said, list) else []
    return _short(
        ": ".join(one for one in parts if isinstance(one, str)) or "no reason is recorded"
    )


def _failing(sessions: SessionRepository, session_id: str) -> list[ShownStep]:
    """Return the steps whose last attempt failed and which are not recorded since."""
    found: dict[str, ShownStep] = {}
    for entry in sessions.read_last(session_id, STREAM, _LOOKED_AT).entries:
        kind, fields, _ = decode_head(session_id, entry.head)
        if kind == Kind.REWIND:
            found.clear()
        elif kind == Kind.STEP:
            found.pop(fields[0], None)
        elif kind == Kind.FAILED:
            path, _, error, tokens, micro_usd, started = fields
            before = found.pop(path, None)
            tries, spent = (before.attempts, before) if before else (0, None)
            found[path] = ShownStep(
                path,
                "failing",
                moment(started),
                None,
                tokens + (spent.tokens if spent else 0),
                micro_usd + (spent.micro_usd if spent else 0),
                tries + 1,
                _short(error),
            )
    return list(found.values())


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_ERROR else f"{flat[: _MAX_ERROR - 1]}…"
