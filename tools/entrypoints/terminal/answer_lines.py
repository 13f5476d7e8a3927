"""The lines above a question: which one it is, since when it waits, who asked, and where one is."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ...questions import Question
from .asked_by import asked_text
from .draft import Draft, Reply
from .question_queue import Waiting
from .queue_view import SHORT_ID
from .text import one_line, running

_TITLE_WIDTH: Final = 16
_ASKED_WIDTH: Final = 60


def step_of(reply: Reply, *, here: bool) -> str:
    """Draw a question's sign: where you are, answered, asked back, or open."""
    if here:
        return "▸"
    if reply.ask is not None:
        return "?"
    return "✓" if reply.answered else "·"


def steps_text(questions: tuple[Question, ...], draft: Draft, width: int) -> str:
    """Write the line of all questions: with their titles if they fit, else with numbers."""
    signs = [step_of(reply, here=i == draft.position) for i, reply in enumerate(draft.replies)]
    titled = [
        f"{sign} {i + 1} {one_line(question.title, _TITLE_WIDTH)}"
        for i, (sign, question) in enumerate(zip(signs, questions, strict=True))
    ]
    text = "   ".join(titled)
    if len(text) <= width:
        return text
    text = "  ".join(f"{sign} {i + 1}" for i, sign in enumerate(signs))
    if len(text) <= width:
        return text
    return f"{sum(reply.answered for reply in draft.replies)} of {len(questions)} answered"


def head_text(waiting: Waiting, start: str, *, now: datetime, others: int, width: int) -> str:
    """Write the first line: which question of which session, since when, how much time is left.

    Where `width` is too little for all of it, how many others wait is said shorter, then not.
    """
    parts = [
        start,
        f"session {waiting.session_id[:SHORT_ID]}",
        f"waiting {running((now - waiting.created_at).total_seconds())}",
    ]
    if waiting.ends_at is not None:
        parts.append(f"{running((waiting.ends_at - now).total_seconds())} left")
    for more in (f"{others:,} more waiting", f"{others:,} more") if others else ():
        if len(text := " · ".join([*parts, more])) <= width:
            return text
    return " · ".join(parts)


def prompt_title(question: Question, waiting: Waiting) -> str:
    """Write what stands above a prompt: its title, who asked, and from which folder."""
    title = one_line(question.title) or "Question"
    asked = asked_text(waiting, _ASKED_WIDTH)
    return f"{title} · {asked}" if asked else title
