"""The questions that a session asked a person, and their outcomes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from ....base.question import Option, Question
from ....harness import SessionHistory
from ....harness.domain.history_events import QuestionAsked, QuestionEnded, QuestionNotAsked
from ....harness.views.question_entries import answers_in_words

_ABOUT: Final = "question_"
WAITING: Final = "waiting"
NOT_ASKED: Final = "not asked"


@frozen(kw_only=True)
class AskedPrompt:
    """One question.

    Attributes:
        prompt: The question's text.
        options: The offered answers, as far as they are known.
        answer: The person's answer in words; None if there is none.
    """

    prompt: str
    options: tuple[Option, ...] = ()
    answer: str | None = None


@frozen(kw_only=True)
class QuestionView:
    """Questions that were asked together under one id.

    Attributes:
        question_id: Their id.
        phase: The session's phase at the time, or None.
        asked_at: When they were asked.
        ended_at: When they ended, or None.
        outcome: "waiting", "answered", "rejected", "timed_out", "abandoned" or "not asked".
        reason: Why they were rejected or ended without an answer, or None.
        prompts: The questions.
    """

    question_id: str
    phase: str | None
    asked_at: datetime
    ended_at: datetime | None = None
    outcome: str = WAITING
    reason: str | None = None
    prompts: tuple[AskedPrompt, ...] = ()


def options_by_prompt(questions: Iterable[Question]) -> dict[str, tuple[Option, ...]]:
    """Return the answers that questions offer, by the question's text."""
    return {one.prompt: one.options for one in questions if one.options}


def asked_questions(
    history: Iterable[SessionHistory], offered: Mapping[str, tuple[Option, ...]]
) -> tuple[QuestionView, ...]:
    """Return the questions of a history, oldest first.

    Args:
        history: The session's history.
        offered: The offered answers by the question's text, as far as they are known.
    """
    found: dict[str, QuestionView] = {}
    for entry in history:
        if not entry.action.startswith(_ABOUT):
            continue
        event = entry.event
        if not isinstance(event, QuestionAsked | QuestionNotAsked | QuestionEnded):
            continue
        name = event.question_id
        known = found.get(name)
        if known is None and not isinstance(event, QuestionNotAsked):
            known = QuestionView(question_id=name, phase=entry.phase, asked_at=entry.timestamp)
            if isinstance(event, QuestionAsked):
                prompts = (
                    AskedPrompt(prompt=one, options=offered.get(one, ())) for one in event.prompts
                )
                known = evolve(known, prompts=tuple(prompts))
        if known is not None:
            found[name] = _ended(known, event, entry.timestamp)
    return tuple(found.values())


def _ended(
    known: QuestionView, event: QuestionAsked | QuestionNotAsked | QuestionEnded, at: datetime
) -> QuestionView:
    if isinstance(event, QuestionAsked):
        return known
    if isinstance(event, QuestionNotAsked):
        return evolve(known, outcome=NOT_ASKED, reason=event.problem, ended_at=at)
    prompts = known.prompts
    if event.outcome == "answered":
        prompts = prompts or (AskedPrompt(prompt=""),)
        words = answers_in_words(event, len(prompts))
        prompts = tuple(evolve(one, answer=word) for one, word in zip(prompts, words, strict=True))
    return evolve(known, outcome=event.outcome, reason=event.reason, ended_at=at, prompts=prompts)
