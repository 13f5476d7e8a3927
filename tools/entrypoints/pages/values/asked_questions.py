"""The questions that a session put to a person, and how each ended; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from ....base.question import Question
from ....harness import SessionHistory
from ....harness.domain.history_events import QuestionAsked, QuestionEnded, QuestionNotAsked
from ....harness.views.question_entries import answers_in_words
from .attempts import Step

_ABOUT = "question_"
WAITING = "waiting"
NOT_ASKED = "not asked"


@frozen(kw_only=True)
class OfferedOption:
    """An answer that was offered.

    Attributes:
        label: The answer.
        description: What it means, or None.
    """

    label: str
    description: str | None = None


@frozen(kw_only=True)
class AskedPrompt:
    """One question.

    Attributes:
        prompt: The question.
        options: The answers that were offered, as far as that is known.
        answer: What the person answered, in words; None while there is no answer.
    """

    prompt: str
    options: tuple[OfferedOption, ...] = ()
    answer: str | None = None


@frozen(kw_only=True)
class QuestionView:
    """Questions that were asked together.

    Attributes:
        question_id: Their id.
        phase: The phase that the session was in, or None.
        asked_at: When they were asked.
        ended_at: When they ended, or None.
        outcome: "waiting", "answered", "rejected", "timed_out", "abandoned" or "not asked".
        reason: Why it was declined or ended without an answer, or None.
        prompts: The questions.
    """

    question_id: str
    phase: str | None
    asked_at: datetime
    ended_at: datetime | None = None
    outcome: str = WAITING
    reason: str | None = None
    prompts: tuple[AskedPrompt, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it waits for an answer."""
        return self.outcome == WAITING


Offered = Mapping[str, Sequence[OfferedOption]]
"""The answers that were offered, by the question."""


def offered_in(steps: Iterable[Step]) -> dict[str, tuple[OfferedOption, ...]]:
    """Return the answers that agents offered, as their stored answers have them."""
    found: dict[str, tuple[OfferedOption, ...]] = {}
    for step in steps:
        questions = step.get("questions") if isinstance(step, Mapping) else None
        for one in questions if isinstance(questions, list) else ():
            if isinstance(one, Mapping) and one.get("options"):
                options = (_option(each) for each in one["options"] if isinstance(each, Mapping))
                found[str(one.get("prompt"))] = tuple(options)
    return found


def offered_by(questions: Iterable[Question]) -> dict[str, tuple[OfferedOption, ...]]:
    """Return the answers that some questions offer."""
    return {
        one.prompt: tuple(
            OfferedOption(label=each.label, description=each.description) for each in one.options
        )
        for one in questions
        if one.options
    }


def _option(value: Mapping[str, Any]) -> OfferedOption:
    description = value.get("description")
    return OfferedOption(
        label=str(value.get("label", "")),
        description=None if description is None else str(description),
    )


def asked_questions(
    history: Iterable[SessionHistory], offered: Offered | None = None
) -> tuple[QuestionView, ...]:
    """Return the questions of a history, oldest first.

    Args:
        history: The history.
        offered: The answers that were offered, as far as they are known.
    """
    found: dict[str, QuestionView] = {}
    for entry in history:
        if not entry.action.startswith(_ABOUT):
            continue
        event = entry.event
        if isinstance(event, QuestionAsked):
            found.setdefault(event.question_id, _asked(event, entry, offered or {}))
        elif isinstance(event, QuestionNotAsked) and event.question_id in found:
            known = found[event.question_id]
            found[event.question_id] = evolve(
                known, outcome=NOT_ASKED, reason=event.problem, ended_at=entry.timestamp
            )
        elif isinstance(event, QuestionEnded):
            bare = QuestionView(
                question_id=event.question_id, phase=entry.phase, asked_at=entry.timestamp
            )
            known = found.get(event.question_id, bare)
            found[event.question_id] = _ended(known, event, entry.timestamp)
    return tuple(found.values())


def _asked(event: QuestionAsked, entry: SessionHistory, offered: Offered) -> QuestionView:
    prompts = (
        AskedPrompt(prompt=one, options=tuple(offered.get(one, ()))) for one in event.prompts
    )
    return QuestionView(
        question_id=event.question_id,
        phase=entry.phase,
        asked_at=entry.timestamp,
        prompts=tuple(prompts),
    )


def _ended(known: QuestionView, event: QuestionEnded, moment: datetime) -> QuestionView:
    prompts = known.prompts
    if event.outcome == "answered":
        prompts = prompts or (AskedPrompt(prompt=""),)
        words = answers_in_words(event, len(prompts))
        prompts = tuple(evolve(one, answer=word) for one, word in zip(prompts, words, strict=True))
    return evolve(
        known, outcome=event.outcome, reason=event.reason, ended_at=moment, prompts=prompts
    )
