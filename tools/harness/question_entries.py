"""How a question to a person stands in a session's history; pure.

The entry that a question was asked is on disk before anybody can see the question, and holds its
id. So whoever leads the session next knows which question waits, and finds its answer. This is the
one place that writes and reads such entries, those of earlier versions included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from .ports import PersonAnswer, PersonQuestion, PersonReply
from .session_domain import SessionContext, SessionHistory, SessionState

ASKED: Final = "question_asked"
NOT_ASKED: Final = "question_not_asked"
OUTCOMES: Final = {
    "answered": "question_answered",
    "rejected": "question_rejected",
    "timed_out": "question_timed_out",
    "abandoned": "question_abandoned",
}
"""What became of a question, and the history's word for it."""
_ACTIONS: Final = {action: outcome for outcome, action in OUTCOMES.items()}
_EARLIER_ASKED: Final = "questions_asked"
"""What agents' sessions of earlier versions say instead: `ID: the agent asks: …`, after the person
could see the questions, and without a key, because the id follows from it."""
_EARLIER_ENDED: Final = "questions_answered"
"""The same versions' word for answered and not answered: `call N: QUESTION -> ANSWER`."""
_ENDINGS: Final = frozenset({*_ACTIONS, NOT_ASKED, _EARLIER_ENDED})
_KEY_CHARS: Final = 200
_NOT_ANSWERED: Final = "not answered"


def question_key(session: SessionContext, questions: Sequence[PersonQuestion]) -> str:
    """Name what is asked by where in the session it is asked and by its words."""
    told = [
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
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def check_key(key: str) -> str:
    """Return a caller's own key, if it can stand in the history.

    Raises:
        ValueError: It can't.
    """
    if not 0 < len(key) <= _KEY_CHARS or not key.isprintable() or key != key.strip():
        raise ValueError(f"key: expected 1 to {_KEY_CHARS} printable characters, got {key!r}")
    return key


def asked_details(question_id: str, key: str, questions: Sequence[PersonQuestion]) -> str:
    """Write the entry of a question that is about to be asked."""
    prompts = [f"{number}. {one.prompt}" for number, one in enumerate(questions, 1)]
    return "\n".join([f"question {question_id}, key {key}", *prompts])


def find_asked(session: SessionContext, key: str, question_id: str) -> str | None:
    """Return the id of the question that was asked under a key last, or None.

    Args:
        session: Who asked.
        key: The key.
        question_id: The id that the key names; by it the entries of earlier versions are known.
    """
    for entry in reversed(session.history):
        if entry.action == _EARLIER_ASKED and asked_id(entry) == question_id:
            return question_id
        if entry.action in {ASKED, NOT_ASKED}:
            _, _, told = _first_line(entry).partition(", key ")
            if told == key:
                return asked_id(entry)
    return None


def asked_id(entry: SessionHistory) -> str | None:
    """Return the id of the question that an entry says was asked, or None if it says no such."""
    first = _first_line(entry)
    if entry.action == _EARLIER_ASKED:
        return first.partition(":")[0] or None
    if entry.action != ASKED or not first.startswith("question "):
        return None
    return first.removeprefix("question ").partition(", key ")[0]


def waiting_question(entries: Sequence[SessionHistory]) -> str | None:
    """Return the id of the question that was asked last, while nothing is known of its end."""
    for entry in reversed(entries):
        if entry.action in _ENDINGS:
            return None
        if (question_id := asked_id(entry)) is not None:
            return question_id
    return None


def _first_line(entry: SessionHistory) -> str:
    return (entry.details or "").partition("\n")[0]


def reply_details(reply: PersonReply) -> str:
    """Write the entry of what became of a question."""
    lines = [f"question {reply.question_id}"]
    if reply.reason:
        lines.append(f"reason: {' '.join(reply.reason.split())}")
    if reply.answers:
        told = [[one.question_index, list(one.selected), one.text] for one in reply.answers]
        lines.append(f"answers: {json.dumps(told, ensure_ascii=False)}")
    if reply.text:
        lines.append(reply.text)
    return "\n".join(lines)


def find_reply(session: SessionContext, question_id: str) -> PersonReply | None:
    """Return what the history says became of a question.

    Entries of earlier versions have of the answers only their text.
    """
    for entry in reversed(session.history):
        if entry.action not in _ACTIONS or _first_line(entry) != f"question {question_id}":
            continue
        rest = (entry.details or "").partition("\n")[2]
        reason, answers = None, None
        if rest.startswith("reason: "):
            reason, _, rest = rest.removeprefix("reason: ").partition("\n")
        if rest.startswith("answers: "):
            told, _, following = rest.removeprefix("answers: ").partition("\n")
            if (answers := _read_answers(told)) is not None:
                rest = following
        return PersonReply(
            question_id=question_id,
            outcome=_ACTIONS[entry.action],
            text=rest,
            answers=answers or (),
            reason=reason,
        )
    return None


def _read_answers(told: str) -> tuple[PersonAnswer, ...] | None:
    """Read back what `reply_details` wrote of the answers; None if that is something else."""
    try:
        found = json.loads(told)
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


def answers_in_words(reply: PersonReply, count: int) -> tuple[str, ...]:
    """Tell each answer in its own words: labels and the person's text, and nothing around them.

    What quotes an answer word for word takes these; `PersonReply.text` is all of them as a model
    reads them, with the prompts and what the options mean.

    Args:
        reply: What became of the questions.
        count: How many there were.

    Returns:
        As many texts, in the questions' order; one that was not answered says so, and why.
    """
    if reply.outcome != "answered":
        why = reply.reason
        if reply.outcome != "rejected":
            ended = reply.outcome.replace("_", " ")
            why = f"{ended}: {why}" if why else ended
        told = f"{_NOT_ANSWERED}: {why}" if why else _NOT_ANSWERED
        return (f"({told})",) * count
    if not reply.answers:  # an earlier version's entry of a question that is gone
        return (reply.text or f"({_NOT_ANSWERED})",) * count
    by_index = {answer.question_index: answer for answer in reply.answers}
    return tuple(_in_words(by_index.get(index)) for index in range(count))


def _in_words(answer: PersonAnswer | None) -> str:
    if answer is None:
        return f"({_NOT_ANSWERED})"
    told = [", ".join(answer.selected), answer.text or ""]
    return "; ".join(one for one in told if one) or f"({_NOT_ANSWERED})"


def pause_reason(question_id: str) -> str:
    """Write why a session is paused that waits for an answer; more may be said after it."""
    return f"waiting for an answer to question {question_id}"


def is_paused_for(session: SessionContext, question_id: str) -> bool:
    """Tell whether a session is paused because of this question, and not again since."""
    if session.state is not SessionState.PAUSED:
        return False
    for entry in reversed(session.history):
        if entry.action == "session_paused":
            return f"{entry.details} ".startswith(f"{pause_reason(question_id)} ")
    return False
