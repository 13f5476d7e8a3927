"""A channel for questions to a person in memory, at whose calls something else may happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentforge_sessions.harness import Question, QuestionEnded
from agentforge_sessions.testing import ScriptedAnswers

COLOUR = Question(prompt="Which colour?", title="Colour", options=["red", "blue"])


class MemoryChannel(ScriptedAnswers):
    """A channel that waits, counts what was put, and calls the test before and after."""

    def __init__(self) -> None:
        super().__init__(waits=True)
        self.puts = 0
        self.before_put: Callable[[str], object] = lambda _: None
        self.after_put: Callable[[], object] = lambda: None
        self.before_wait: Callable[[], object] = lambda: None

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        self.before_put(question_id)
        if question_id not in self.questions:
            self.puts += 1
            super().put(question_id, questions, call_id=call_id, session=session)
            self.after_put()

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        if question_id in self.questions:
            self.before_wait()
        return super().wait(question_id, timeout_s)
