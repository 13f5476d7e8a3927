"""The screens' port to the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ....questions import UserAnswer
from ..drafts.draft import Draft
from ..question_queue import WaitingSession

if TYPE_CHECKING:
    from .answer_screen import AnswerScreen


class Host(Protocol):
    """The application, as its screens see it."""

    def clock(self) -> datetime:
        """Return the current time, timezone-aware."""

    def others_waiting(self, session_id: str) -> int:
        """Return the number of other sessions that wait."""

    def say(self, message: str) -> None:
        """Show a message for some seconds."""

    def keep(self, draft: Draft) -> None:
        """Store a draft, on disk within a second."""

    def open_session(self, session_id: str) -> None:
        """Show a session's questions."""

    def step_session(self, answering: AnswerScreen, by: int) -> None:
        """Show the session `by` places after this one in the queue, which wraps around."""

    def review(self, answering: AnswerScreen) -> None:
        """Show all answers for a review before they are sent."""

    def send(self, answering: AnswerScreen, answers: Sequence[UserAnswer]) -> None:
        """Send the answers of a session."""

    def ask_to_reject(self, waiting: WaitingSession, *, typed: Callable[[str], None]) -> None:
        """Ask for a reason and reject a session; `typed` receives the reason at each change."""

    def leave_session(self, answering: AnswerScreen) -> None:
        """Go back to the queue."""
