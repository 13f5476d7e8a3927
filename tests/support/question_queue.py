"""A queue of questions in memory, and questions to put into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from attrs import define, field

from agentforge_sessions.entrypoints.terminal.question_queue import (
    QueueListing,
    SessionEnding,
    WaitingSession,
)
from agentforge_sessions.questions import (
    Asker,
    Option,
    Question,
    SessionEnded,
    SessionNotFound,
    SessionStatus,
    UserAnswer,
)
from agentforge_sessions.questions.rules import validate_answers

START: Final = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

STORAGE: Final = Question(
    title="Storage",
    prompt="Which **database** should the job queue use?",
    options=(
        Option(label="PostgreSQL", description="A server to run, many writers."),
        Option(label="SQLite (recommended)", description="One file, no server."),
        Option(label="Redis"),
    ),
)
CHECKS: Final = Question(
    title="Checks",
    prompt="Which checks run before a merge?",
    multi_select=True,
    options=(
        Option(label="Types (recommended)"),
        Option(label="Lint"),
        Option(label="Tests [recommended]"),
    ),
)
NAME: Final = Question(title="Name", prompt="What is it called?", options=())


def session_id(number: int) -> str:
    """Return the id of a session by its number."""
    return str(UUID(int=(number << 96) | (4 << 76) | (8 << 60)))


@define
class _Session:
    questions: tuple[Question, ...]
    created_at: datetime
    folder: str | None = None
    asker: Asker | None = None
    ends_at: datetime | None = None
    ending: SessionEnding | None = None
    answers: tuple[UserAnswer, ...] = ()


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@define
class FakeQueue:
    """Question sessions in memory; each change rings."""

    where: str = "/questions"
    now: datetime = START
    refuses: Exception | None = None
    """What each answer and rejection is refused with."""
    unreadable: tuple[str, ...] = ()
    submissions: int = 0
    """How often an answer was given, well or not."""
    readable: threading.Event = field(factory=_set)
    """Cleared, whoever reads a session's questions waits until it is set."""
    sessions: dict[str, _Session] = field(factory=dict)
    _bell: asyncio.Event = field(factory=asyncio.Event)

    def clock(self) -> datetime:
        return self.now

    # ------------------------------------------------------------------- what others do

    def ask(
        self,
        *questions: Question,
        waited_s: float = 0,
        limit_s: float | None = None,
        folder: str | None = None,
        asker: Asker | None = None,
    ) -> str:
        new = session_id(len(self.sessions) + 1)
        created_at = self.now - timedelta(seconds=waited_s)
        ends_at = created_at + timedelta(seconds=limit_s) if limit_s is not None else None
        self.sessions[new] = _Session(questions or (STORAGE,), created_at, folder, asker, ends_at)
        self._bell.set()
        return new

    def end(self, which: str, status: SessionStatus | None, reason: str | None = None) -> None:
        self.sessions[which].ending = SessionEnding(status=status, reason=reason, at=self.now)
        self._bell.set()

    def ended(self, which: str) -> tuple[SessionStatus | None, str | None]:
        """Return how a session ended, and why."""
        ending = self.sessions[which].ending
        assert ending is not None
        return ending.status, ending.reason

    def forget(self, which: str) -> None:
        del self.sessions[which]
        self._bell.set()

    # ------------------------------------------------------------------- the port

    def listing(self) -> QueueListing:
        waiting = [
            WaitingSession(
                session_id=one,
                titles=tuple(question.title for question in session.questions),
                created_at=session.created_at,
                folder=session.folder,
                asker=session.asker,
                ends_at=session.ends_at,
            )
            for one, session in self.sessions.items()
            if session.ending is None
        ]
        waiting.sort(key=lambda one: (one.created_at, one.session_id))
        return QueueListing(waiting=tuple(waiting), unreadable=self.unreadable)

    def questions(self, session_id: str) -> tuple[Question, ...]:
        assert self.readable.wait(30)
        return self._get(session_id).questions

    def ending(self, session_id: str) -> SessionEnding | None:
        if session_id not in self.sessions:
            return SessionEnding(status=None)
        return self.sessions[session_id].ending

    def submit(self, session_id: str, answers: Sequence[UserAnswer]) -> None:
        self.submissions += 1
        session = self._waiting(session_id, "answer")
        validate_answers(answers, session.questions)
        session.answers = tuple(answers)
        session.ending = SessionEnding(status=SessionStatus.COMPLETED, at=self.now)
        self._bell.set()

    def reject(self, session_id: str, reason: str | None) -> None:
        session = self._waiting(session_id, "reject")
        session.ending = SessionEnding(status=SessionStatus.REJECTED, reason=reason, at=self.now)
        self._bell.set()

    async def changes(self) -> AsyncIterator[None]:
        while True:
            self._bell.clear()
            yield
            await self._bell.wait()

    def _get(self, session_id: str) -> _Session:
        if session_id not in self.sessions:
            raise SessionNotFound(session_id, path=Path(self.where))
        return self.sessions[session_id]

    def _waiting(self, session_id: str, operation: str) -> _Session:
        if self.refuses is not None:
            raise self.refuses
        session = self._get(session_id)
        if session.ending is not None and session.ending.status is not None:
            raise SessionEnded(session_id, status=session.ending.status, operation=operation)
        return session
