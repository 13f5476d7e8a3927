"""A channel for questions to a person that is nothing but memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field

from agentforge_sessions.harness import PersonAnswer, Question, QuestionAnswered, QuestionEnded
from agentforge_sessions.harness.domain.history_events import QuestionAbandoned

COLOUR = Question(prompt="Which colour?", title="Colour", options=["red", "blue"])


@define
class MemoryChannel:
    """A channel in memory: what other tests of the manager use."""

    questions: dict[str, tuple[Question, ...]] = field(factory=dict)
    replies: dict[str, QuestionEnded] = field(factory=dict)
    puts: int = 0
    ids: dict[str, str] = field(factory=dict)
    changed: threading.Condition = field(factory=threading.Condition)
    before_put: Callable[[str], object] = lambda _: None
    after_put: Callable[[], object] = lambda: None
    before_wait: Callable[[], object] = lambda: None

    def id_for(self, key: str) -> str:
        return self.ids.setdefault(key, f"q-{len(self.ids) + 1}")

    def check(self, questions: object) -> None:
        if not questions:
            raise ValueError("no questions")

    def put(
        self,
        question_id: str,
        questions: object,
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        self.before_put(question_id)
        if question_id not in self.questions:
            self.puts += 1
            self.questions[question_id] = tuple(questions)  # type: ignore[arg-type]
            self.after_put()

    def withdraw(self, question_id: str, reason: str) -> None:
        with self.changed:
            if question_id in self.questions:
                ended = QuestionAbandoned(question_id=question_id, reason=reason)
                self.replies.setdefault(question_id, ended)
            self.changed.notify_all()

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        if question_id not in self.questions:
            raise LookupError(question_id)
        self.before_wait()
        with self.changed:
            self.changed.wait_for(lambda: question_id in self.replies, timeout_s)
            return self.replies.get(question_id)

    def answer(self, question_id: str, label: str) -> None:
        answer = PersonAnswer(question_index=0, selected=(label,))
        with self.changed:
            self.replies[question_id] = QuestionAnswered(
                question_id=question_id, text=label, answers=(answer,)
            )
            self.changed.notify_all()
