"""The ports through which all but the composition root access stored sessions.

A `SessionRepository` holds the sessions themselves, for every worker that may lead them. What only
one machine has of them (a directory to work in, the locks of the work there) is `SessionPlaces`. A
worker needs both: `LocalSessions`. Files implement both in one class, `SessionStore`.

The module is long because it states the contract of every implementation in words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..base.clock import Clock
from .errors import SessionNotAdopted
from .feed_port import SessionFeeds
from .session_domain import SessionContext, SessionState
from .stream_port import SessionStreams
from .views.session_filter import SessionFilter
from .views.session_head import SessionSummary, UnreadableSession
from .views.session_page import SessionCursor, SessionOrder, SessionPage

if TYPE_CHECKING:
    from ..base.search_words import SearchWords


@runtime_checkable
class SessionRepository(SessionStreams, SessionFeeds, Protocol):
    """Stores sessions and reads events from their histories.

    Every implementation guarantees: when `save` returns, the session survives the death of the
    process; when it raises, what is stored is unchanged. A reader sees a complete session or none.
    Two writers of one session never overwrite each other: the later one gets a `SessionConflict`.
    No id reaches anything but a session. Instances may be shared between threads. One suite,
    `tests/contract/harness/test_session_repository_contract.py`, checks all of them.
    """

    @property
    def where(self) -> str:
        """Where the sessions are stored, for messages."""
        ...

    def where_is(self, session_id: str, name: str | None = None) -> str:
        """Return where a session is stored, or would be, for messages.

        Args:
            session_id: The session.
            name: An attachment of it, or a step (`steps/NAME`); the session itself if None.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def reference(self, session_id: str) -> str:
        """Return a name by which other programs can find a session without this repository.

        In files, the absolute path of its directory, which any program on the machine can open;
        otherwise its id, in a store that its users know.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    # -------------------------------------------------------------------------------- one session

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> object:
        """Store the session as it is in memory.

        Args:
            session: The session. If it was never saved (revision 0), it is created. Its `revision`
                goes up by one when, and only when, the save succeeds.
            attachments: At creation: documents to store beside it, by name. They appear together
                with the session and are never changed.
            inherited: At creation: what a fork has from its parent, as `read_attachments` returns
                it.

        Raises:
            InvalidSession: It violates the rules of the domain; nothing was written.
            SessionConflict: Another worker saved, deleted or replaced it; nothing was written.
            SessionIdTaken: A new session's id is taken; nothing was written.
            InvalidStateTransition: The stored session has ended (a save without changes is
                ignored), or its state was set directly; nothing was written.
            SessionCorrupted: What is stored can't be read, so it is not overwritten.
            SessionTooLarge: It would be too large to read back; nothing was written.
            ValueError: An attachment's name is invalid; nothing was written.
            WriteError: The store refused; it and `session` are unchanged. Only if the error says
                `visible` is the new content in place.
        """
        ...

    def adopt(
        self, session: SessionContext, *, documents: Mapping[str, bytes] | None = None
    ) -> object:
        """Create a session as another store has it, at the same revision.

        Args:
            session: The session; it was saved before (revision 1 or more), and is not changed.
            documents: The documents beside it there, as `read_attachments` returns them. They
                appear together with the session.

        Raises:
            InvalidSession: It violates the rules of the domain; nothing was written.
            SessionIdTaken: Its id is taken; nothing was written.
            SessionTooLarge: It would be too large to read back; nothing was written.
            ValueError: It was never saved, or a document's name is invalid; nothing was written.
            WriteError: As from `save`.
        """
        ...

    def load(self, session_id: str) -> SessionContext | None:
        """Return a session, or None if no session has this id.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionCorrupted: What is stored is not a session; the error names every fault.
        """
        ...

    def exists(self, session_id: str) -> bool:
        """Return whether a session with this id exists, readable or not.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
        """
        ...

    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        """Delete a session, readable or not, with everything stored beside it.

        Args:
            session_id: The session.
            expected_revision: If given, only a session at this revision is deleted.
            missing_ok: Whether a missing session is no error.

        Returns:
            Whether it existed.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionNotFound: There is no such session, and `missing_ok` is False.
            SessionInUse: A worker is using it; nothing was changed.
            SessionConflict: It is at another revision; nothing was deleted.
            WriteError: The store refused; nothing was deleted.
            RemovalError: It is out of every listing, but some of it could not be deleted.
        """
        ...

    def is_interrupted(self, session_id: str, state: SessionState) -> bool:
        """Return whether a run of the session was cut off: it is active, and no runner leads it.

        A session that no runner ever led is never interrupted.

        Args:
            session_id: The session.
            state: Its state.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def is_led(self, session_id: str) -> bool:
        """Return whether a runner leads the session now; the answer may already be outdated.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def change_mark(self, session_id: str) -> Hashable | None:
        """Return a value that differs once the session has changed; None if unknown.

        It costs less than loading the session, and may change without cause.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    # ------------------------------------------------------------------------- documents beside it

    def read_document(self, session_id: str) -> bytes | None:
        """Return the text of a session's file, or None if no session has this id.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionCorrupted: It is not stored as text, and can't be read.
            ReadError: The store refused.
        """
        ...

    def read_attachment(self, session_id: str, name: str) -> bytes | None:
        """Return a document stored beside the session at its creation; None if it has none.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid attachment name.
            ReadError: The store refused.
        """
        ...

    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        """Return all documents beside a session, by name: what a fork inherits.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The store refused.
        """
        ...

    def read_step(self, session_id: str, name: str) -> bytes | None:
        """Return a step of the session's runs, or None if no step has this name.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid step name.
            ReadError: The store refused.
        """
        ...

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        """Store a step, atomically and durably, for the next worker.

        Only one worker at a time may do so, under the run's lock.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid step name.
            WriteError: The store refused, or there is no such session.
        """
        ...

    def step_names(self, session_id: str) -> list[str]:
        """Return the names of all steps, sorted.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The store refused.
        """
        ...

    # ------------------------------------------------------------------------------- all sessions

    def list_sessions(self) -> list[str]:
        """Return the ids of all sessions, readable or not, sorted.

        Raises:
            ReadError: The store refused.
        """
        ...

    def summaries(
        self, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions by their heads, sorted by id.

        The cost per session does not grow with its history.

        Args:
            wanted: Only matching sessions; all by default. One that can't be read is always
                yielded, as `UnreadableSession`.

        Raises:
            ReadError: The store refused.
        """
        ...

    def page(
        self,
        wanted: SessionFilter | None = None,
        *,
        order: SessionOrder = SessionOrder.LAST_CHANGED,
        limit: int,
        after: SessionCursor | None = None,
    ) -> SessionPage:
        """Return a page of the matching sessions, in order.

        Consecutive pages have each session once that existed all the time and did not change its
        place in the order. One that changes meanwhile may move across a page's end, and so come
        twice or not at all: in the order of last change, it moves to the front.

        Args:
            wanted: Only matching sessions; all by default.
            order: The order.
            limit: The page's maximum size, 1 or more.
            after: The end of the previous page; None for the first page.

        Raises:
            InvalidSession: `limit` is out of range.
            InvalidCursor: `after` is from a page with another order or filter.
            ReadError: The store refused.
        """
        ...

    def candidates(
        self, words: SearchWords, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions that may contain words, the last changed first.

        Each matching session that contains all of the words is included; `session_search` decides
        whether a candidate does. Unreadable ones may come at any position.

        Args:
            words: The words.
            wanted: Only matching sessions; all by default.

        Raises:
            ReadError: The store refused.
        """
        ...

    def resolve(self, shortened: str) -> str:
        """Return the one id that `shortened` is, begins, ends or is part of.

        Args:
            shortened: An id, or a part of one. A complete id wins over ids that contain it, a
                beginning over an end, an end over a middle.

        Raises:
            InvalidSessionId: It can't be part of an id.
            SessionNotFound: It matches no id.
            AmbiguousId: It matches several ids.
        """
        ...

    def delete_ended(self, *, days: float, dry_run: bool, clock: Clock) -> list[str]:
        """Delete the sessions that ended more than `days` ago.

        A session that is active, paused, unreadable or in use is never deleted.

        Args:
            days: The minimum time since they ended, in days, 0 or more.
            dry_run: Delete nothing, only return what would be deleted.
            clock: The time.

        Returns:
            The ids of the sessions that were, or would be, deleted, oldest first.

        Raises:
            PruneError: The store refused; nothing was deleted.
        """
        ...

    def close(self) -> None:
        """Release open resources, such as connections; later use reopens them.

        Safe to repeat.
        """
        ...


class RunLock(Protocol):
    """A lock that also ends with its owner's death."""

    def acquire(self) -> object:
        """Take the lock.

        Raises:
            FileNotFoundError: The session does not exist (any more), or has nothing to lock.
            LockTimeout: Another owner holds it.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


@runtime_checkable
class SessionPlaces(Protocol):
    """One machine's part of the sessions: directories to work in, and the locks of the work."""

    @property
    def base_path(self) -> Path:
        """The parent of the sessions' directories."""
        ...

    def ensure_directory(self) -> None:
        """Create the base directory, durably, if it is missing.

        Raises:
            WriteError: The system refused.
        """
        ...

    def session_directory(self, session_id: str) -> Path:
        """Return where a session's directory is, or would be.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def workspace_path(self, session_id: str) -> Path:
        """Return where a session's workspace is, or would be.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def run_lock(self, session_id: str, name: str, *, timeout_s: float) -> RunLock:
        """Return the lock of a run, not yet acquired.

        Args:
            session_id: The session to run.
            name: The attachment to lock.
            timeout_s: How long to wait for the current owner, in seconds.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def is_own(self, session_id: str) -> bool:
        """Return whether a session is this person's own: created here by them, or adopted.

        A session from a clone is not: no entry point acts on it by itself, runs what it contains,
        or shows its text to an agent (`require_own`). All sessions of a database are: a person
        named it.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def fingerprint(self, session_id: str) -> str:
        """Return a text that differs once the session's file, or one beside it, has changed.

        Its streams, its workspace and the workspace's snapshots are not covered.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The system refused.
        """
        ...

    def make_own(self, session_id: str, *, shown: str | None = None) -> None:
        """Mark an existing session as this person's own, at their request.

        Args:
            session_id: The session.
            shown: The fingerprint of what they saw, taken before it was read for them.

        Raises:
            InvalidSessionId: The id is malformed.
            ChangedSinceShown: It differs from what they saw; nothing was marked.
            WriteError: The person's state directory can't be written; nothing was marked.
        """
        ...

    def idle(self, session_id: str, guards: Sequence[str]) -> AbstractContextManager[None]:
        """Lock a session against everything that could work in it; saves stay possible.

        Args:
            session_id: The session.
            guards: What processes that work in its directory lock there.

        Raises:
            SessionInUse: A run or an execution is at work in it.
            WriteError: The system refused.
        """
        ...


@runtime_checkable
class LocalSessions(SessionRepository, SessionPlaces, Protocol):
    """Sessions and this machine's places to work on them: what a worker needs."""


def require_own(sessions: LocalSessions, session_id: str) -> None:
    """Raise unless a session is this person's own.

    Raises:
        SessionNotAdopted: It is not this person's own.
    """
    if not sessions.is_own(session_id):
        raise SessionNotAdopted(session_id, where=sessions.where)
