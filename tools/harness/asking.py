"""How a question to a person stands in a session's history; pure.

The entry that a question was asked is on disk before anybody can see the question, and holds its
id. So whoever leads the session next knows which question waits, and finds its answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from tools.harness.ports import PersonQuestion, PersonReply
from tools.harness.session_domain import SessionContext, SessionState

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
_KEY_CHARS: Final = 200


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


def find_asked(session: SessionContext, key: str) -> str | None:
    """Return the id of the question that was asked under a key last, or None."""
    for entry in reversed(session.history):
        if entry.action not in {ASKED, NOT_ASKED} or not entry.details:
            continue
        first = entry.details.split("\n", 1)[0]
        if first.startswith("question ") and first.endswith(f", key {key}"):
            question_id = first.removeprefix("question ").split(",", 1)[0]
            return question_id if entry.action == ASKED else None
    return None


def reply_details(reply: PersonReply) -> str:
    """Write the entry of what became of a question."""
    lines = [f"question {reply.question_id}"]
    if reply.reason:
        lines.append(f"reason: {' '.join(reply.reason.split())}")
    if reply.text:
        lines.append(reply.text)
    return "\n".join(lines)


def find_reply(session: SessionContext, question_id: str) -> PersonReply | None:
    """Return what the history says became of a question; of the answers only their text."""
    for entry in reversed(session.history):
        if entry.action in _ACTIONS and entry.details:
            first, _, rest = entry.details.partition("\n")
            if first != f"question {question_id}":
                continue
            reason = None
            if rest.startswith("reason: "):
                said, _, rest = rest.removeprefix("reason: ").partition("\n")
                reason = said
            return PersonReply(
                question_id=question_id, outcome=_ACTIONS[entry.action], text=rest, reason=reason
            )
    return None


def pause_reason(question_id: str) -> str:
    """Write why a session is paused that waits for an answer."""
    return f"waiting for an answer to question {question_id}"


def is_paused_for(session: SessionContext, question_id: str) -> bool:
    """Tell whether a session is paused because of this question, and not again since."""
    if session.state is not SessionState.PAUSED:
        return False
    for entry in reversed(session.history):
        if entry.action == "session_paused":
            return entry.details == pause_reason(question_id)
    return False
