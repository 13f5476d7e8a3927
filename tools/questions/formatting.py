"""The texts that are returned to a model: answers, and the status of questions.

Everything here is pure. The words are an interface: models and their prompts know them, and other
programs that speak this format write the same (tests/golden).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..base.question import InvalidQuestions, Option, Question
from .domain import SessionAnswers, UserAnswer
from .errors import InvalidAnswers
from .rules import (
    ELABORATE_MARKER,
    REPHRASE_MARKER,
    answers_of,
    is_request_to_asker,
)

SHORT_ID_CHARS: Final = 8
"""The number of characters of a shortened id in these texts."""
_HEADER: Final = "Here are the user's answers:"
_REJECTED: Final = "User rejected this question set."


def short_id(session_id: str) -> str:
    """Return the beginning of an id, which represents it in texts."""
    return session_id[:SHORT_ID_CHARS]


def format_header(session_id: str, question_count: int) -> str:
    """Return the line that names a session above its answers or its rejection."""
    return f"[Session: {short_id(session_id)} | Questions: {question_count}]"


def format_user_response(
    answers: SessionAnswers | Iterable[UserAnswer],
    questions: Iterable[Question],
    session_id: str | None = None,
) -> str:
    """Return the answers of a session as the text that its model reads.

    Questions without an answer are left out; all entries for one question are included, in their
    order.

    Args:
        answers: The answers.
        questions: All questions of the session, in their order.
        session_id: Named in a header; without it, or with an empty one, there is no header.

    Returns:
        The text, without a newline at its end.

    Raises:
        InvalidAnswers: There are none ("No answers provided in session").
        InvalidQuestions: There are none ("No questions provided").
    """
    given = answers_of(answers)
    asked = tuple(questions)
    if not given:
        raise InvalidAnswers(["No answers provided in session"])
    if not asked:
        raise InvalidQuestions(["No questions provided"])
    parts = []
    for index, question in enumerate(asked):
        entries = [one for one in given if one.question_index == index]
        if entries:
            lines = [f"{index + 1}. {question.prompt}", *_lines(question, entries)]
            parts.append("\n".join(lines))
    header = [format_header(session_id, len(asked)), ""] if session_id else []
    return "\n".join([*header, _HEADER, "", "\n\n".join(parts)])


def _lines(question: Question, entries: Sequence[UserAnswer]) -> list[str]:
    """Return the lines of all entries for one question, or one line if none is an answer."""
    if not any(map(_says_something, entries)):
        chose_nothing = any(one.selected_options is not None for one in entries)
        return ["→ (No selection)" if chose_nothing else "→ No answer provided"]
    return [line for one in entries for line in _entry_lines(question, one)]


def _says_something(answer: UserAnswer) -> bool:
    """Return whether an entry answers. An empty text is no text; a list hides a single choice."""
    chosen = answer.selected_options
    if chosen is None:
        return bool(answer.selected_option or answer.custom_text)
    return bool(chosen or answer.custom_text)


def _entry_lines(question: Question, answer: UserAnswer) -> list[str]:
    options = {option.label: option for option in reversed(question.options)}  # the first counts
    lines: list[str] = []
    if answer.selected_options is not None:
        lines += [_line(options[one]) for one in answer.selected_options if one in options]
    elif answer.selected_option:
        chosen = options.get(answer.selected_option)
        lines.append(_line(chosen) if chosen is not None else f"→ {answer.selected_option}")
    if answer.custom_text:
        lines.append(_own_words(answer.custom_text))
    return lines


def _own_words(text: str) -> str:
    if is_request_to_asker(text):
        return text
    escaped = text.replace("'", "\\'")
    return f"→ Other: '{escaped}'"


def _line(option: Option) -> str:
    if option.description:
        return f"→ {option.label} — {option.description}"
    return f"→ {option.label}"


# --------------------------------------------------------------------------------- the status


def format_submission(
    session_id: str, question_count: int, *, command: str = "agentforge questions ask --wait-for"
) -> str:
    """Return the text for questions that were asked without waiting.

    Args:
        session_id: The session.
        question_count: The number of its questions.
        command: The command that fetches the answers at a command line, without the id.
    """
    short = short_id(session_id)
    return (
        f"[Session: {short} | Questions: {question_count} | Status: pending]\n\n"
        "Questions submitted successfully.\n"
        f'Use get_answered_questions(session_id="{short}") or `{command} {short}` '
        "to retrieve answers."
    )


def format_pending(session_id: str) -> str:
    """Return the text for a session without an answer yet."""
    return f"{_standing(session_id, 'pending')}No answers yet."


def format_rejected(session_id: str, reason: str | None) -> str:
    """Return the text for fetching from a rejected session; an empty reason counts as none."""
    why = f' Reason: "{reason}"' if reason else ""
    return f"{_standing(session_id, 'rejected')}{_REJECTED}{why}"


def format_inactive(session_id: str, status: str) -> str:
    """Return the text for fetching from a session that ended in another way."""
    return f"{_standing(session_id, status)}Session is no longer active."


def format_status(session_id: str, status: str) -> str:
    """Return the text that says a session's status and nothing else."""
    return f"{_standing(session_id, status)}Session status: {status}"


def format_rejection(
    reason: str | None, *, session_id: str | None = None, question_count: int = 0
) -> str:
    """Return the text for a waiting asker whose questions were rejected.

    Args:
        reason: The person's words; an empty text counts as none.
        session_id: Named in a header; without it there is no header.
        question_count: The number of the session's questions, for the header.

    Returns:
        The text, with a blank line at its end.
    """
    header = f"{format_header(session_id, question_count)}\n\n" if session_id else ""
    why = f'Rejection reason: "{reason}"' if reason else "No reason provided."
    return f"{header}{_REJECTED}\n\n{why}\n\n"


def _standing(session_id: str, status: str) -> str:
    return f"[Session: {short_id(session_id)} | Status: {status}]\n\n"


# -------------------------------------------------------------------- requests to the asker


def format_elaborate_request(
    question_index: int, title: str, prompt: str, note: str | None = None
) -> str:
    """Return the text that asks a model to explain a question before it is answered.

    Args:
        question_index: Which question, from 0.
        title: Its title.
        prompt: The full question.
        note: The person's addition, word for word; an empty text counts as none.
    """
    return _with_note(
        f"{ELABORATE_MARKER} The person cannot decide on question {question_index + 1} "
        f"({title}) yet: explain what it is about, what each option means and what follows from "
        f"it, then ask it again.\nQuestion: {prompt}",
        note,
    )


def format_rephrase_request(question_index: int, title: str, note: str | None = None) -> str:
    """Return the text that asks a model to put a question in other words.

    Args:
        question_index: Which question, from 0.
        title: Its title.
        note: The person's addition, word for word; an empty text counts as none.
    """
    return _with_note(
        f"{REPHRASE_MARKER} The person does not understand question {question_index + 1} "
        f"({title}) as it is worded: ask it again in other, simpler words.",
        note,
    )


def _with_note(request: str, note: str | None) -> str:
    return f"{request}\nThe person adds: {note}" if note else request
