"""An agent's questions to a person: asked once, the answers stored beside the session."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ...harness import QuestionWaits, SessionState, answers_in_words
from ...harness.domain.session_observer import QuestionWaiting
from ...harness.views.question_entries import pause_reason
from ..agents.port import AgentQuestion
from ..ports import Stop, StopCause
from .progress import Progress
from .run_lock import LedSession


@frozen(kw_only=True, eq=False)
class AgentQuestions:
    """Gets answers to one session's questions within its run."""

    led: LedSession
    timeout_s: float

    def ask(self, progress: Progress, call: int, questions: Sequence[AgentQuestion]) -> Stop | None:
        """Ask the questions of a call and store the answers; None when they are stored."""
        key = progress.key
        name = key.name("answers", call)
        if self.led.steps.read(name) is not None:
            return None
        answers = self.collect(questions, f"{key.serial}.{call}")
        if isinstance(answers, Stop):
            return answers
        answered = zip(questions, answers, strict=True)
        self.led.steps.write(
            name,
            {
                "answered": [[question.prompt, answer] for question, answer in answered],
                "questions": _questions_in_words(questions),
            },
        )
        return None

    def collect(self, questions: Sequence[AgentQuestion], key: str) -> tuple[str, ...] | Stop:
        """Ask through the manager, which asks once per key and records everything."""
        asked = _questions_in_words(questions)
        if not self.led.manager.can_ask:
            return Stop(
                reason=f"{asked}; this run has no way to ask a person, so nobody was asked",
                cause=StopCause.PERSON,
            )
        if self.led.session.state is not SessionState.ACTIVE:
            return Stop(
                reason=f"{asked}; the session was paused meanwhile, so nobody was asked; "
                "resume asks",
                cause=StopCause.PAUSED,
            )
        try:
            reply = self.led.manager.ask(
                questions,
                key=key,
                timeout_s=self.timeout_s,
                on_waiting=lambda asked: self._waits(asked, questions),
            )
        except QuestionWaits as waits:
            return Stop(
                reason=f"{pause_reason(waits.question_id)} ({asked}); answer it, then resume",
                cause=StopCause.PERSON,
                question_id=waits.question_id,
            )
        return answers_in_words(reply, len(questions))

    def _waits(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        self.led.manager.announce(QuestionWaiting(question_id=asked, count=len(questions)))
        self.led.observer.questions_asked(asked, questions)

    def answered(self) -> tuple[tuple[str, str], ...]:
        """Return every answered question of this session, with its answer."""
        found: list[tuple[str, str]] = []
        for name in self.led.steps.names():
            if name.endswith(".answers.json"):
                kept = self.led.steps.read(name) or {}
                found += [(question, answer) for question, answer in kept.get("answered", [])]
        return tuple(found)


def _questions_in_words(questions: Sequence[AgentQuestion]) -> str:
    prompts = "; ".join(" ".join(one.prompt.split()) for one in questions)
    return f"the agent asks: {prompts if len(prompts) <= 600 else prompts[:597] + '...'}"
