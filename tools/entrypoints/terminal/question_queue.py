"""What the terminal needs of question sessions: a narrow port, and the stored ones behind it."""

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
"""How long a change may go unseen where the file system reports none, in seconds."""

LOOK_AGAIN_S: Final = 60.0
"""After how long all is looked at again though no file changed, in seconds: whether an asker still
lives stands in no file."""


@frozen(kw_only=True)
class WaitingSession:
    """One session in the queue.

    Attributes:
        session_id: Its id.
        titles: The titles of its questions.
        created_at: Since when it waits.
        folder: The working directory of its asker, as far as the asker wrote it down.
        asker: Who waits for the answer; None if it is not known.
        ends_at: When its time is over; None if it has no limit.
    """

    session_id: str
    titles: tuple[str, ...]
    created_at: datetime
    folder: str | None = None
    asker: Asker | None = None
    ends_at: datetime | None = None


@frozen(kw_only=True)
class QueueListing:
    """The queue at a moment.

    Attributes:
        waiting: The sessions that wait, the oldest first.
        unreadable: The names of directories that look like sessions and can't be read.
    """

    waiting: tuple[WaitingSession, ...] = ()
    unreadable: tuple[str, ...] = ()


@frozen(kw_only=True)
class SessionEnding:
    """How a session came to wait no more.

    Attributes:
        status: Its status; None if the session was deleted or can't be read.
        reason: Why it was rejected or abandoned, if a reason was given.
        at: When.
    """

    status: SessionStatus | None
    reason: str | None = None
    at: datetime | None = None


class QuestionQueue(Protocol):
    """Where questions wait for a person. Calls block; each may be made in any thread.

    Every call may raise `QuestionError`, `DurableError` and `OSError`.
    """

    @property
    def where(self) -> str:
        """Where the sessions are."""

    def listing(self) -> QueueListing:
        """Return the queue as it is now; one bad session never hides the others."""

    def questions(self, session_id: str) -> tuple[Question, ...]:
        """Return a session's questions."""

    def ending(self, session_id: str) -> SessionEnding | None:
        """Return how a session ended; None if it still waits."""

    def submit(self, session_id: str, answers: Sequence[UserAnswer]) -> None:
        """Answer a session that waits."""

    def reject(self, session_id: str, reason: str | None) -> None:
        """Reject a session that waits."""

    def changes(self) -> AsyncIterator[None]:
        """Yield at once, then whenever the queue may have changed, and each `POLL_S` anyway."""


class StoredQuestions:
    """The question sessions of a directory or another store."""

    def __init__(
        self,
        sessions: QuestionSessions,
        *,
        clock: Clock = utc_now,
    ) -> None:
        """Look at sessions.

        Args:
            sessions: The sessions.
            clock: The time now, aware.
        """
        self._sessions = sessions
        self._clock = clock
        self._seen: tuple[Hashable, datetime, QueueListing] | None = None

    @property
    def where(self) -> str:
        """Where the sessions are."""
        return self._sessions.where

    def prepare(self) -> None:
        """Make the place where sessions appear, so that it can be watched before anybody asks.

        Raises:
            QuestionStoreError: It can't be made.
        """
        self._sessions.prepare()

    def listing(self) -> QueueListing:
        """Return the queue as it is now; one bad session never hides the others.

        What did not change since the last listing is not read again; if nothing did for less than
        `LOOK_AGAIN_S`, the last listing itself is returned, for the price of a change mark.
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
        """Return by what a change of any session is seen; None if one might not be."""
        if self._sessions.config.session_timeout_s:
            return None  # a session may end by the passing of time alone
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
        """Answer a session that waits."""
        self._sessions.save_session_answers(session_id, answers)

    def reject(self, session_id: str, reason: str | None) -> None:
        """Reject a session that waits."""
        self._sessions.reject_session(session_id, reason)

    async def changes(self) -> AsyncIterator[None]:
        """Yield at once, then whenever the queue may have changed, and each `POLL_S` anyway.

        The watcher that wakes waits reports them; the listing that follows each `POLL_S` is the
        guarantee where it does not, so that the feed need not look for itself as often.
        """
        import anyio

        yield
        while True:
            try:
                found = self._sessions.changes_async(at_least_every_s=POLL_S, look_s=LOOK_AGAIN_S)
                async with aclosing(found) as changes:
                    async for _ in changes:
                        yield
            except (OSError, QuestionError) as error:  # the directory can't be read or made
                _log.debug("terminal.watch_lost", path=self.where, fault=str(error))
            await anyio.sleep(POLL_S)
            yield
