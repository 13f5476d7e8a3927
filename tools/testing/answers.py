"""Answers to a program's questions that a test gives."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..base.question import InvalidQuestions, Question
from ..harness.domain.history_events import (
    PersonAnswer,
    QuestionAbandoned,
    QuestionAnswered,
    QuestionEnded,
    QuestionRejected,
)


class ScriptedAnswers:
    """A person whose answers are known beforehand. A `harness.QuestionChannel`.

    Guarantees: an answer may be given before its question is asked, or while a thread waits for it;
    a question without an answer ends the wait at once, as if its time had passed, unless `waits`.
    Not guaranteed: that a question outlives the process, or that it is valid for any other channel.

    Attributes:
        questions: What was asked, by the question's id, in order.
        replies: Ends of questions that are no answers, by the question's id or its prompt.
    """

    def __init__(self, answers: Mapping[str, str] | None = None, *, waits: bool = False) -> None:
        """Create the channel.

        Args:
            answers: The label to choose, by the prompt of its question.
            waits: Whether a wait lasts until another thread answers.
        """
        self.questions: dict[str, tuple[Question, ...]] = {}
        self.replies: dict[str, QuestionEnded] = {}
        self._waits = waits
        self._given: dict[str, PersonAnswer] = {}
        self._ids: dict[str, str] = {}
        self._changed = threading.Condition()
        for question, label in (answers or {}).items():
            self.answer(question, label)

    @property
    def asked(self) -> list[str]:
        """The prompts of all questions, in the order in which they were asked."""
        return [one.prompt for questions in self.questions.values() for one in questions]

    def answer(self, question: str, *labels: str, text: str | None = None) -> None:
        """Answer a question, whenever it is asked.

        Args:
            question: Its prompt, or its id.
            labels: The options to choose.
            text: The person's own words.
        """
        with self._changed:
            self._given[question] = PersonAnswer(question_index=0, selected=labels, text=text)
            self._changed.notify_all()

    def reject(self, question: str, reason: str | None = None) -> None:
        """Decline to answer a question, named by its prompt or its id."""
        with self._changed:
            self.replies[question] = QuestionRejected(reason=reason)
            self._changed.notify_all()

    # ---------------------------------------------------------------------------- the channel

    def id_for(self, key: str) -> str:
        """Return the question id for a key: the same for this key, and for no other."""
        return self._ids.setdefault(key, f"q-{len(self._ids) + 1}")

    def check(self, questions: Sequence[Question]) -> None:
        """Refuse a call without questions.

        Raises:
            InvalidQuestions: There are none.
        """
        if not questions:
            raise InvalidQuestions(["there are no questions"])

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        """Record the questions; do nothing if this id was submitted already."""
        del call_id, session
        self.questions.setdefault(question_id, tuple(questions))

    def withdraw(self, question_id: str, reason: str) -> None:
        """End a question whose answer no worker can use any more."""
        with self._changed:
            if question_id in self.questions and self._reply(question_id) is None:
                self.replies[question_id] = QuestionAbandoned(reason=reason)
            self._changed.notify_all()

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        """Return the reply, or None; it waits only if the channel was created to.

        Raises:
            LookupError: No question was submitted under this id.
        """
        if question_id not in self.questions:
            raise LookupError(question_id)
        with self._changed:
            if self._waits:
                self._changed.wait_for(lambda: self._reply(question_id) is not None, timeout_s)
            return self._reply(question_id)

    def _reply(self, question_id: str) -> QuestionEnded | None:
        questions = self.questions[question_id]
        names = [question_id, *(one.prompt for one in questions)]
        ended = next((self.replies[name] for name in names if name in self.replies), None)
        if ended is not None:
            return replace(ended, question_id=question_id)
        answers = []
        for index, question in enumerate(questions):
            given = self._given.get(question_id) or self._given.get(question.prompt)
            if given is None:
                return None
            answers.append(replace(given, question_index=index))
        words = [" ".join([*one.selected, one.text or ""]).strip() for one in answers]
        return QuestionAnswered(
            question_id=question_id, text="\n".join(words), answers=tuple(answers)
        )
