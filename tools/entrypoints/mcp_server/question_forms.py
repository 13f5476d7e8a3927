"""Questions to a person, as every server of ours asks them: their forms and their words.

A form has two fields per question: one with the labels to choose from, and one for free text. Forms
are those of the 2025 protocol, in which a server may send requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ...base.event_log import get_logger
from ...base.files import DurableError
from ...questions import (
    Notify,
    Question,
    QuestionError,
    QuestionSession,
    QuestionSessions,
    SessionStatus,
    UserAnswer,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_submission,
    format_user_response,
)

SINCE_LISTS: Final = "2025-11-25"
"""The first protocol version whose forms allow several labels to be chosen."""

DECLINES_UNASKED: Final = frozenset({"codex-mcp-client"})
"""Clients that decline a form by themselves if they must not ask anyone: Codex 0.169 does so in
`codex exec`, and wherever its approval policy is "never"."""

_log = get_logger("agentforge.mcp")


def message(questions: Sequence[Question]) -> str:
    """Return the questions as text, with the meaning of each option."""
    lines = []
    for number, one in enumerate(questions, 1):
        lines.append(f"{number}. {one.prompt}")
        lines += [
            f"   - {each.label}: {each.description}" for each in one.options if each.description
        ]
    return "\n".join(lines)


def form(questions: Sequence[Question]) -> dict[str, Any]:
    """Return the schema of the form; no field is required."""
    fields: dict[str, Any] = {}
    for number, one in enumerate(questions, 1):
        labels = {"type": "string", "enum": [each.label for each in one.options]}
        several = {"type": "array", "items": labels}
        fields[f"q{number}"] = {**(several if one.multi_select else labels), "title": one.title}
        own = f"{one.title}: an answer of your own"
        fields[f"q{number}_own"] = {"type": "string", "title": own}
    return {"type": "object", "properties": fields}


def answers_in(content: Mapping[str, object], questions: Sequence[Question]) -> list[UserAnswer]:
    """Return the answers in a form; unanswered questions have none."""
    found = []
    for index, one in enumerate(questions):
        chosen, own = content.get(f"q{index + 1}"), content.get(f"q{index + 1}_own")
        known = {each.label for each in one.options}
        labels = chosen if isinstance(chosen, list) else [chosen]
        picked = tuple(label for label in labels if label in known)
        text = own.strip() if isinstance(own, str) else ""
        if picked or text:
            found.append(
                UserAnswer(
                    question_index=index,
                    selected_option=picked[0] if picked and not one.multi_select else None,
                    selected_options=picked if picked and one.multi_select else None,
                    custom_text=text or None,
                )
            )
    return found


@contextmanager
def logged(event: str, **fields: object) -> Iterator[None]:
    """Log errors of question sessions in the block, and continue after it."""
    try:
        yield
    except (QuestionError, DurableError, OSError) as error:
        _log.warning(event, **fields, error=str(error))


def withdraw_abandoned(sessions: QuestionSessions) -> None:
    """End as abandoned every question whose asker was killed, as listing pending ones does.

    Logs the questions that can't be read or ended.
    """
    with logged("mcp.orphans_not_looked_for"):
        sessions.pending()


def after_asking(sessions: QuestionSessions, notify: Notify | None, session_id: str) -> None:
    """Notify the person and clean up."""
    with logged("mcp.not_told", session_id=session_id):
        if notify is not None:
            notify(sessions.get(session_id))
    withdraw_abandoned(sessions)
    with logged("mcp.clean_up_failed"):
        if deleted := sessions.cleanup_expired_sessions().deleted:
            _log.info("mcp.cleaned_up", count=len(deleted))


def in_words(session: QuestionSession, status: SessionStatus, *, just_asked: bool) -> str:
    """Return the status of questions in words, for a call that asked or that fetches answers."""
    session_id, count, reason = session.session_id, len(session.questions), session.rejection_reason
    if status is SessionStatus.REJECTED and just_asked:
        return format_rejection(reason, session_id=session_id, question_count=count)
    if status is SessionStatus.REJECTED:
        return format_rejected(session_id, reason)
    if status is SessionStatus.PENDING:
        return format_submission(session_id, count) if just_asked else format_pending(session_id)
    if status is SessionStatus.COMPLETED and session.answers is not None:
        return format_user_response(session.answers, session.questions, session_id)
    return format_inactive(session_id, status.value)
