"""The terminal's port to question sessions, and its implementation by stored sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final, Protocol

from attrs import frozen

from ...base.clock import Clock, utc_now
from ...base.event_log import get_logger
from ...questions import (
    Asker,
    Question,
    QuestionError,
    QuestionSessions,
    SessionNotFound,
    SessionStatus,
    UnreadableQuestion,
    UserAnswer,
)

_log = get_logger("agentforge.terminal")

POLL_S: Final = 1.0
"""Maximum delay until a change is noticed if the file system reports none, in seconds."""

LOOK_AGAIN_S: Final = 60.0
"""Time until all sessions are read again although no file changed, in seconds: an asker's death
changes no file."""


@frozen(kw_only=True)
class WaitingSession:
    """One session in the queue.

    Attributes:
        session_id: Its id.
        titles: The titles of its questions.
        created_at: When it was created and started waiting.
        folder: The working directory that its asker recorded, or None.
        asker: The process or agent session that waits for the answer; None if unknown.
        ends_at: When it times out; None if it has no time limit.
    """

    session_id: str
    titles: tuple[str, ...]
    created_at: datetime
    folder: str | None = None
    asker: Asker | None = None
    ends_at: datetime | None = None


@frozen(kw_only=True)
class QueueListing:
    """A snapshot of the queue.

    Attributes:
        waiting: The waiting sessions, oldest first.
        unreadable: The ids of sessions that can't be read.
    """

    waiting: tuple[WaitingSession, ...] = ()
    unreadable: tuple[str, ...] = ()


@frozen(kw_only=True)
class SessionEnding:
    """How a session ended.

    Attributes:
        status: Its final status; None if the session was deleted.
        reason: Why it was rejected or abandoned, if a reason was given.
        at: When it ended, if known.
    """

    status: SessionStatus | None
    reason: str | None = None
    at: datetime | None = None


class QuestionQueue(Protocol):
    """Port to the questions that wait for a person. Calls block and are thread-safe.

    Every call may raise `QuestionError`, `DurableError` and `OSError`.
    """

    @property
    def where(self) -> str:
        """The location of the sessions, for messages."""

    def listing(self) -> QueueListing:
        """Return the current queue; an unreadable session never hides the others."""

    def questions(self, session_id: str) -> tuple[Question, ...]:
        """Return a session's questions."""

    def ending(self, session_id: str) -> SessionEnding | None:
        """Return how a session ended; None if it still waits."""

    def submit(self, session_id: str, answers: Sequence[UserAnswer]) -> None:
        """Answer a waiting session."""

    def reject(self, session_id: str, reason: str | None) -> None:
        """Reject a waiting session."""

    def changes(self) -> AsyncIterator[None]:
        """Yield at once, whenever the queue may have changed, and at least every `POLL_S`."""


class StoredQuestions:
    """Queue of the question sessions in a directory or another store."""

    def __init__(
        self,
        sessions: QuestionSessions,
        *,
        clock: Clock = utc_now,
    ) -> None:
        """Set up the queue; no I/O yet.

        Args:
            sessions: The sessions.
            clock: The current time, timezone-aware.
        """
        self._sessions = sessions
        self._clock = clock
        self._seen: tuple[Hashable, datetime, QueueListing] | None = None

    @property
    def where(self) -> str:
        """The location of the sessions, for messages."""
        return self._sessions.where

    def prepare(self) -> None:
        """Create the sessions' store, so that it can be watched before the first question.

        Raises:
            QuestionStoreError: The store can't be created.
        """
        self._sessions.prepare()

    def listing(self) -> QueueListing:
        """Return the current queue; an unreadable session never hides the others.

        Sessions that did not change since the last listing are not read again. If none changed, and
        the last listing is younger than `LOOK_AGAIN_S`, the same object is returned, at the cost of
        one change mark.
        """
        mark, now = self._mark(), self._clock()
        if self._seen is not None:
            seen, at, listing = self._seen
            if mark == seen and abs(now - at) < timedelta(seconds=LOOK_AGAIN_S):
                return listing
        listing = self._read_listing()
        sure = mark is not None and not listing.unreadable
        self._seen = (mark, now, listing) if sure else None
        return listing

    def _mark(self) -> Hashable | None:
        """Return a mark that differs after any change; None if a change might not show in it."""
        if self._sessions.config.session_timeout_s:
            return None  # a session may time out without any write
        return self._sessions.change_mark()

    def _read_listing(self) -> QueueListing:
        unreadable: list[UnreadableQuestion] = []
        pending = self._sessions.pending(on_unreadable=unreadable.append)
        limit_s = self._sessions.config.session_timeout_s
        waiting = tuple(
            WaitingSession(
                session_id=one.session_id,
                titles=one.titles,
                created_at=one.created_at,
                folder=one.working_directory or None,
                asker=one.asker,
                ends_at=one.created_at + timedelta(seconds=limit_s) if limit_s else None,
            )
            for one in pending
        )
        return QueueListing(waiting=waiting, unreadable=tuple(one.session_id for one in unreadable))

    def questions(self, session_id: str) -> tuple[Question, ...]:
        """Return a session's questions."""
        return self._sessions.get(session_id).questions

    def ending(self, session_id: str) -> SessionEnding | None:
        """Return how a session ended; None if it still waits."""
        try:
            session = self._sessions.get(session_id)
        except SessionNotFound:
            return SessionEnding(status=None)
        if session.status is not SessionStatus.PENDING:
            reason = session.record.rejection_reason or session.record.end_reason
            return SessionEnding(status=session.status, reason=reason, at=session.last_modified)
        standing = self._sessions.status_of(session)
        if standing is SessionStatus.PENDING:
            return None
        lived = timedelta(seconds=self._sessions.config.session_timeout_s)
        return SessionEnding(status=standing, at=session.created_at + lived)

    def submit(self, session_id: str, answers: Sequence[UserAnswer]) -> None:
        """Answer a waiting session."""
        self._sessions.save_session_answers(session_id, answers)

    def reject(self, session_id: str, reason: str | None) -> None:
        """Reject a waiting session."""
        self._sessions.reject_session(session_id, reason)

    async def changes(self) -> AsyncIterator[None]:
        """Yield at once, whenever the queue may have changed, and at least every `POLL_S`.

        The process's directory watcher reports changes. If it misses one, the caller's listing
        after each `POLL_S` finds it, so the change feed itself looks only every `LOOK_AGAIN_S`.
        """
        import anyio

        yield
        while True:
            try:
                found = self._sessions.changes_async(at_least_every_s=POLL_S, look_s=LOOK_AGAIN_S)
                async with aclosing(found) as changes:
                    async for _ in changes:
                        yield
            except (OSError, QuestionError) as error:  # the store can't be read or created
                _log.debug("terminal.watch_lost", path=self.where, fault=str(error))
            await anyio.sleep(POLL_S)
            yield
