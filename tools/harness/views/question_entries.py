"""Questions to a person in a session's history; pure.

The entry that a question was asked is on disk before a person can see the question, and holds its
id. So the next worker finds the open question and its answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..domain.history_events import (
    HistoryEvent,
    PersonAnswer,
    QuestionAsked,
    QuestionEnded,
    QuestionNotAsked,
    SessionPaused,
)
from ..domain.session_entries import newest_events
from ..session_domain import SessionContext, SessionState

if TYPE_CHECKING:
    from ...base.question import Question

_KEY_CHARS: Final = 200
_ABOUT_QUESTIONS: Final = "question"
"""The prefix of the actions of all events of questions."""
_NOT_ANSWERED: Final = "not answered"


def question_key(session: SessionContext, questions: Sequence[Question]) -> str:
    """Return the key of questions, derived from their words and the session's position."""
    asked = [
        session.current_phase,
        session.attempt_number,
        [
            [
                one.prompt,
                one.title,
                one.multi_select,
                [[option.label, option.description] for option in one.options],
            ]
            for one in questions
        ],
    ]
    import hashlib  # slow to load

    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def check_key(key: str) -> str:
    """Return a caller's own key, if it is valid in the history.

    Raises:
        ValueError: It is not.
    """
    if not 0 < len(key) <= _KEY_CHARS or not key.isprintable() or key != key.strip():
        raise ValueError(f"key: expected 1 to {_KEY_CHARS} printable characters, got {key!r}")
    return key


def find_asked(session: SessionContext, key: str) -> str | None:
    """Return the id of the question last asked under a key, or None."""
    for event in _question_events(session):
        match event:
            case QuestionAsked(question_id=found, key=under) if under == key:
                return found
            case QuestionNotAsked(key=under) if under == key:
                return None
    return None


def questions_asked(session: SessionContext) -> set[str]:
    """Return the ids of all questions that a session asked."""
    events = _question_events(session)
    return {one.question_id for one in events if isinstance(one, QuestionAsked)} - {""}


def waiting_question(events: Iterable[HistoryEvent | None]) -> str | None:
    """Return the id of the question last asked, unless it has ended.

    Args:
        events: What happened, newest first.
    """
    for event in events:
        if isinstance(event, QuestionEnded | QuestionNotAsked):
            return None
        if isinstance(event, QuestionAsked) and event.question_id:
            return event.question_id
    return None


def find_reply(session: SessionContext, question_id: str) -> QuestionEnded | None:
    """Return how a question ended, or None; a hook's record has only an answer's text."""
    for event in _question_events(session):
        if isinstance(event, QuestionEnded) and event.question_id == question_id:
            return event
    return None


def open_questions(session: SessionContext) -> list[QuestionAsked]:
    """Return the open questions, the last one first."""
    ended, found = set(), []
    for event in _question_events(session):
        if isinstance(event, QuestionEnded):
            ended.add(event.question_id)
        elif isinstance(event, QuestionNotAsked):
            break
        elif isinstance(event, QuestionAsked) and event.question_id not in {"", *ended}:
            found.append(event)
            ended.add(event.question_id)
    return found


def _question_events(session: SessionContext) -> Iterator[HistoryEvent]:
    """Yield the events of questions, newest first; other entries are not decoded."""
    for entry in reversed(session.history):
        if entry.action.startswith(_ABOUT_QUESTIONS) and (event := entry.event) is not None:
            yield event


def answers_in_words(reply: QuestionEnded, count: int) -> tuple[str, ...]:
    """Return each answer in its own words: labels and the person's text, without additions.

    Use these to quote an answer literally; `QuestionEnded.text` has all answers as a model reads
    them, with the prompts and the meaning of the options.

    Args:
        reply: The reply.
        count: The number of questions.

    Returns:
        One text per question, in order; for an unanswered one, a text that says why.
    """
    if reply.outcome != "answered":
        why = reply.reason
        if reply.outcome != "rejected":
            ended = reply.outcome.replace("_", " ")
            why = f"{ended}: {why}" if why else ended
        told = f"{_NOT_ANSWERED}: {why}" if why else _NOT_ANSWERED
        return (f"({told})",) * count
    if not reply.answers:  # the hook recorded it
        return (reply.text or f"({_NOT_ANSWERED})",) * count
    by_index = {answer.question_index: answer for answer in reply.answers}
    return tuple(_in_words(by_index.get(index)) for index in range(count))


def _in_words(answer: PersonAnswer | None) -> str:
    if answer is None:
        return f"({_NOT_ANSWERED})"
    words = [", ".join(answer.selected), answer.text or ""]
    return "; ".join(one for one in words if one) or f"({_NOT_ANSWERED})"


def pause_reason(question_id: str) -> str:
    """Return the reason of a session's pause for an answer; more may be appended to it."""
    return f"waiting for an answer to question {question_id}"


def is_paused_for(session: SessionContext, question_id: str) -> bool:
    """Return whether a session's current pause is for this question."""
    if session.state is not SessionState.PAUSED:
        return False
    paused = next(newest_events(session.history, SessionPaused), None)
    return paused is not None and paused[1].question_id == question_id
