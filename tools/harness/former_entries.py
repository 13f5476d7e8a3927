"""Entries of sessions that earlier versions wrote, whose history has no data; pure.

They said in `details` what `data` says now. This is the one place that reads it there, by the rules
of the versions that wrote it, and nothing else does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from .history_events import (
    EVENTS,
    QUESTION_ENDINGS,
    AgentAnswered,
    BudgetExtended,
    HistoryEvent,
    PersonAnswer,
    PhaseEnded,
    PhaseFailed,
    PhaseSucceeded,
    QuestionAnswered,
    QuestionAsked,
    QuestionEnded,
    QuestionNotAsked,
    RetryReason,
    SessionAborted,
    SessionPaused,
)

# Not compiled here: `re` keeps what it compiled, and most processes need none of them.
_ANSWERED: Final = r"call (\d{1,9}): (\d{1,19}) tokens"
_CHARGED: Final = r"; (\d{1,19}) tokens(?:;|$)"
_EXTENDED: Final = r"by (\d{1,19}) "
_SECONDS: Final = r"; (\d{1,9}\.\d\d) s(?:;|$)"
_WAITING: Final = r"waiting for an answer to question (\S+)(?: |$)"


def former_event(action: str, details: str) -> HistoryEvent | None:
    """Return the event of an entry without data; None for a note.

    Args:
        action: The entry's action.
        details: Its details; empty if it has none.
    """
    read = _READERS.get(action)
    if read is not None:
        return read(details)
    kind = EVENTS.get(action)
    return None if kind is None else kind()


def _paused(details: str) -> HistoryEvent:
    found = re.match(_WAITING, details)
    return SessionPaused(reason=details or None, question_id=found[1] if found else None)


def _answered(details: str) -> HistoryEvent:
    found = re.match(_ANSWERED, details)
    return AgentAnswered(
        call=int(found[1]) if found else None,
        tokens=int(found[2]) if found else 0,
        seconds=_seconds_in(details) or 0.0,
    )


def _ended(kind: type[PhaseEnded]) -> Callable[[str], HistoryEvent]:
    def read(details: str) -> HistoryEvent:
        found = re.search(_CHARGED, _first_line(details))
        return kind(seconds=_seconds_in(details), tokens=int(found[1]) if found else 0)

    return read


def _extended(details: str) -> HistoryEvent:
    found = re.match(_EXTENDED, details)
    return BudgetExtended(additional_tokens=int(found[1]) if found else 0)


def _asked(details: str) -> HistoryEvent:
    first = _first_line(details)
    if not first.startswith("question "):
        return QuestionAsked(key="")
    question_id, _, key = first.removeprefix("question ").partition(", key ")
    return QuestionAsked(question_id=question_id, key=key)


def _asked_without_a_key(details: str) -> HistoryEvent:
    """Read what the first versions wrote after they asked: `ID: the agent asks: …`."""
    return QuestionAsked(question_id=_first_line(details).partition(":")[0])


def _not_asked(details: str) -> HistoryEvent:
    head, _, key = _first_line(details).partition(", key ")
    return QuestionNotAsked(question_id=head.removeprefix("question "), key=key)


def _question_ended(kind: type[QuestionEnded]) -> Callable[[str], HistoryEvent]:
    def read(details: str) -> HistoryEvent:
        first, _, rest = details.partition("\n")
        if not first.startswith("question "):
            return kind()
        reason, answers = None, None
        if rest.startswith("reason: "):
            reason, _, rest = rest.removeprefix("reason: ").partition("\n")
        if rest.startswith("answers: "):
            line, _, following = rest.removeprefix("answers: ").partition("\n")
            if (answers := _read_answers(line)) is not None:
                rest = following
        return kind(
            question_id=first.removeprefix("question "),
            reason=reason,
            text=rest,
            answers=answers or (),
        )

    return read


def _read_answers(line: str) -> tuple[PersonAnswer, ...] | None:
    """Read the line of the answers; None if it is something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    answers = []
    for one in found:
        match one:
            case [int(index), [*selected], str() | None as text] if all(
                isinstance(label, str) for label in selected
            ):
                answers.append(
                    PersonAnswer(question_index=index, selected=tuple(selected), text=text)
                )
            case _:
                return None
    return tuple(answers)


def _seconds_in(details: str) -> float | None:
    found = re.search(_SECONDS, _first_line(details))
    return None if found is None else float(found[1])


def _first_line(details: str) -> str:
    return details.partition("\n")[0]


def _reason(kind: Any) -> Callable[[str], HistoryEvent]:
    def read(details: str) -> HistoryEvent:
        event: HistoryEvent = kind(reason=details or None)
        return event

    return read


_READERS: Final[Mapping[str, Callable[[str], HistoryEvent]]] = {
    "session_paused": _paused,
    "session_aborted": _reason(SessionAborted),
    "retry_reason": _reason(RetryReason),
    "agent_answered": _answered,
    "budget_extended": _extended,
    "phase_succeeded": _ended(PhaseSucceeded),
    "phase_failed": _ended(PhaseFailed),
    "question_asked": _asked,
    "questions_asked": _asked_without_a_key,
    "question_not_asked": _not_asked,
    "questions_answered": lambda _: QuestionAnswered(),
    **{one.action: _question_ended(one) for one in QUESTION_ENDINGS.values()},
}
ACTIONS: Final = frozenset({*EVENTS, *_READERS})
"""Every action that an entry without data may be an event by."""
