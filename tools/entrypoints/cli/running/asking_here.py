"""Ask a waiting run's questions at its terminal; the first answer counts."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from .... import harness
from ....questions import InvalidAnswers, QuestionSessions, SessionEnded
from ....wiring.phases.question_channel import QuestionSessionChannel
from ..asking import ask_each

if TYPE_CHECKING:
    from ....questions import Notify
    from ..output.output import Output

_POLL_S: Final = 0.2
"""How soon an answer from elsewhere is noticed, in seconds."""


class TerminalPerson(QuestionSessionChannel):
    """Question channel of agents' sessions that also asks at a terminal.

    The questions are ordinary question sessions: they wait in their directory and can be answered
    or rejected there as well. The first saved answer counts. At the end of the terminal's input
    (Ctrl-D), this terminal stops asking and the run waits for an answer from elsewhere.
    """

    def __init__(
        self,
        *,
        sessions: QuestionSessions,
        notify: Notify | None,
        output: Output,
        aside: Callable[[], AbstractContextManager[object]],
        terminal: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the channel; ask nothing yet.

        Args:
            sessions: The question sessions.
            notify: Notifies the person of each new question, if given.
            output: Where the questions are shown.
            aside: Keeps the run's view off the terminal while the context lasts.
            terminal: The descriptor that lines are read from.
            monotonic: The clock of time limits.
        """
        super().__init__(sessions, notify=notify)
        self._output = output
        self._aside = aside
        self._terminal = terminal
        self._monotonic = monotonic
        self._typed = b""
        self._closed = False

    def wait(self, question_id: str, timeout_s: float | None) -> harness.QuestionEnded | None:
        """Ask here until an answer comes, from here or elsewhere; see the base class."""
        if self._closed or timeout_s == 0 or not self.waiting(question_id):
            return super().wait(question_id, timeout_s)
        deadline = None if timeout_s is None else self._monotonic() + timeout_s
        with self._aside():
            self._ask(question_id, deadline)
        left = None if deadline is None else max(0.0, deadline - self._monotonic())
        return super().wait(question_id, left)

    def _ask(self, question_id: str, deadline: float | None) -> None:
        """Ask question by question, until all are answered or no more can be asked here."""
        questions = self.sessions.get(question_id).questions

        def read(prompt: str) -> str | None:
            return self._line(prompt, question_id, deadline)

        while (answers := ask_each(self._output, questions, read)) is not None:
            try:
                self.sessions.save_session_answers(question_id, answers)
            except InvalidAnswers as error:
                self._output.remark(f"   {error}")
                continue
            except SessionEnded:
                self._output.remark("   It was answered elsewhere before.")
            return

    def _line(self, prompt: str, question_id: str, deadline: float | None) -> str | None:
        """Read a line; None at end of input, at the deadline, or if it was ended elsewhere."""
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in self._typed:
            if not self.waiting(question_id):
                self._output.remark("\n   It was answered elsewhere.")
                return None
            if deadline is not None and self._monotonic() >= deadline:
                return None
            ready, _, _ = select.select([self._terminal], [], [], _POLL_S)
            piece = os.read(self._terminal, 4096) if ready else None
            if piece == b"":
                self._closed = True
                self._output.remark(
                    "\n   This terminal asks no more; the run waits for answers from elsewhere."
                )
                return None
            self._typed += piece or b""
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")
