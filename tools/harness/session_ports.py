"""The ports through which all but the composition root know where sessions are kept.

A `SessionRepository` has the sessions themselves, for every worker that may lead them. What only
one machine has of them (a directory to work in, the locks of what works there) is `SessionPlaces`.
A worker needs both: `LocalSessions`. Files implement both as one, `SessionStore`.

The module is long because it says in words what every implementation is held to.
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
    """Keeps sessions, and tells what their histories say.

    Guarantees asked of every implementation: when `save` returns, the session survives the death
    of the process; when it raises, what is stored is as it was. A reader sees a whole session or
    none. Two writers of one session never overwrite each other: the later one gets a
    `SessionConflict`. No id reaches anything but a session. Instances may be shared between
    threads. One suite, `tests/contract/harness/test_session_repository_contract.py`,
    holds all of them to this.
    """

    @property
    def where(self) -> str:
        """Where the sessions are kept, for messages."""
        ...

    def where_is(self, session_id: str, name: str | None = None) -> str:
        """Return where a session is kept, or would be, for messages.

        Args:
            session_id: The session.
            name: An attachment of it, or a step (`steps/NAME`); the session itself if None.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def reference(self, session_id: str) -> str:
        """Return what names a session to who may look for it without this repository.

        The absolute path of its directory where it is in files, which any program on the machine
        can open; its id where it is in a store that is known to all who ask.

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
        """Make the stored session what it is in memory.

        Args:
            session: The session. If it was never saved (revision 0), it is created. Its
                `revision` goes up by one when, and only when, the save succeeds.
            attachments: At its creation: documents to keep beside it, by name. They appear
                together with the session and are never changed.
            inherited: At its creation: what a fork has of its parent, as `read_attachments` says.

        Raises:
            InvalidSession: It breaks the rules of the domain; nothing was written.
            SessionConflict: Another worker saved, deleted or replaced it; nothing was written.
            SessionIdTaken: It is to be created, and its id is taken; nothing was written.
            InvalidStateTransition: The stored one has ended (a save that changes nothing then does
                nothing), or its state was set by hand; nothing was written.
            SessionCorrupted: What is stored can't be read, so it is not overwritten.
            SessionTooLarge: It would not be read back; nothing was written.
            ValueError: An attachment has a name that none may have; nothing was written.
            WriteError: The store refused; what it has is as it was, and so is `session`. Only if
                the error says `visible` is the new content in place.
        """
        ...

    def adopt(
        self, session: SessionContext, *, documents: Mapping[str, bytes] | None = None
    ) -> object:
        """Create a session as another store has it, with the revision that it has there.

        Args:
            session: The session; it was saved before (revision 1 or more), and is not changed.
            documents: What is kept beside it there, as `read_attachments` says. It appears
                together with the session.

        Raises:
            InvalidSession: It breaks the rules of the domain; nothing was written.
            SessionIdTaken: Its id is taken; nothing was written.
            SessionTooLarge: It would not be read back; nothing was written.
            ValueError: It was never saved, or a document has a name that none may have; nothing
                was written.
            WriteError: As `save` raises it.
        """
        ...

    def load(self, session_id: str) -> SessionContext | None:
        """Read a session; None if there is none of this id.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionCorrupted: What is stored is no session; the error names every fault.
        """
        ...

    def exists(self, session_id: str) -> bool:
        """Return whether there is a session of this id, readable or not.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
        """
        ...

    def delete(
        self, session_id: str, *, expected_revision: int | None = None, missing_ok: bool = True
    ) -> bool:
        """Delete a session, readable or not, with all that is kept beside it.

        Args:
            session_id: Which.
            expected_revision: If given, only a session that is at this revision is deleted.
            missing_ok: Whether there may be no such session.

        Returns:
            True if it was there, False if not.

        Raises:
            InvalidSessionId: The id is malformed (a harmless name counts as missing).
            SessionNotFound: There is no such session, and `missing_ok` is False.
            SessionInUse: A worker is at it; nothing was touched.
            SessionConflict: It is at another revision; nothing was deleted.
            WriteError: The store refused; nothing was deleted.
            RemovalError: It is in no listing any more, but some of it could not be deleted.
        """
        ...

    def is_interrupted(self, session_id: str, state: SessionState) -> bool:
        """Return whether a run of the session was cut off: it is active, and no runner is at it.

        A session that no runner ever led is never interrupted.

        Args:
            session_id: The session.
            state: The state that it is in.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def is_led(self, session_id: str) -> bool:
        """Return whether a runner is at the session now; the answer may be old when it is read.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def change_mark(self, session_id: str) -> Hashable | None:
        """Return what is another value once the session has changed; None where it isn't known.

        It costs less than to load the session, and may change without cause.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    # ---------------------------------------------------------------------- what is kept beside it

    def read_document(self, session_id: str) -> bytes | None:
        """Return a session as the text of its file, or None if there is none of this id.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionCorrupted: It is not kept as text, and can't be read.
            ReadError: The store refused.
        """
        ...

    def read_attachment(self, session_id: str, name: str) -> bytes | None:
        """Return a document that was kept beside the session at its creation; None if it has none.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid attachment name.
            ReadError: The store refused.
        """
        ...

    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        """Return all that is kept beside a session, by name: what a fork of it takes along.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The store refused.
        """
        ...

    def read_step(self, session_id: str, name: str) -> bytes | None:
        """Return a step of the session's runs, or None if there is none of this name.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `name` is not a valid step name.
            ReadError: The store refused.
        """
        ...

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a step, whole and durable, for whichever worker comes next.

        One worker at a time does so, under the run's lock.

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
        """Go through the sessions by their heads, sorted by id.

        What a session costs here does not grow with its history.

        Args:
            wanted: Only matching sessions; all by default. One that can't be read comes as
                `UnreadableSession`, whatever is wanted.

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
        """Return some of the sessions that fit, in order.

        Page after page has each session once that was there all the time and kept its place. One
        that is changed meanwhile may move over the end of a page, and so come twice or not at all:
        of the last changed, it comes to the front.

        Args:
            wanted: Only matching sessions; all by default.
            order: The order.
            limit: The page's maximum size, 1 or more.
            after: The end of the previous page; None for the first page.

        Raises:
            InvalidSession: `limit` is out of range.
            InvalidCursor: `after` ended a page with another order or filter.
            ReadError: The store refused.
        """
        ...

    def candidates(
        self, words: SearchWords, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Go through the sessions that may hold words, the last changed first.

        Each session that fits and holds all of the words is among them; whether one does hold
        them, `session_search` says. One that can't be read may come anywhere.

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
            shortened: An id, or a part of one. A whole id wins over ids that it is a part of, a
                beginning over an end, an end over a middle.

        Raises:
            InvalidSessionId: It can't be part of an id.
            SessionNotFound: It matches no id.
            AmbiguousId: It matches several ids.
        """
        ...

    def delete_ended(self, *, days: float, dry_run: bool, clock: Clock) -> list[str]:
        """Delete the sessions that ended more than `days` ago.

        One that is active or paused, can't be read, or is worked at is never deleted.

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
        """Let go of what is held open, connections for one; what is used again, opens them again.

        Safe to repeat.
        """
        ...


class RunLock(Protocol):
    """A lock that its owner's death ends, too."""

    def acquire(self) -> object:
        """Take the lock.

        Raises:
            FileNotFoundError: There is no such session (any more), or it has nothing to lock.
            LockTimeout: Another owner holds it.
        """
        ...

    def release(self) -> None:
        """Let go of it."""
        ...


@runtime_checkable
class SessionPlaces(Protocol):
    """What one machine has of the sessions: directories to work in, and the locks of the work."""

    @property
    def base_path(self) -> Path:
        """Where the sessions' directories are."""
        ...

    def ensure_directory(self) -> None:
        """Make the base, durably, if it is missing.

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
        """Return the lock of a run, not taken yet.

        Args:
            session_id: The session that is to be run.
            name: The attachment that the lock is on.
            timeout_s: How long to wait for the current owner, in seconds.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def is_own(self, session_id: str) -> bool:
        """Return whether a session is this person's: made here by them, or adopted.

        One that came with a clone is not: no door acts by itself on it, runs what it carries, or
        shows its text to an agent (`require_own`). All of a database are: a person named it.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        ...

    def fingerprint(self, session_id: str) -> str:
        """Return what is another text once the session's file, or one beside it, has changed.

        Its streams, its workspace and the snapshots of that are not among them.

        Raises:
            InvalidSessionId: The id is malformed.
            ReadError: The system would not read them.
        """
        ...

    def make_own(self, session_id: str, *, shown: str | None = None) -> None:
        """Make a session that is there this person's own, because they said so.

        Args:
            session_id: The session.
            shown: The fingerprint of what they saw, taken before it was read for them.

        Raises:
            InvalidSessionId: The id is malformed.
            ChangedSinceShown: It is another one than they saw; it is as it was.
            WriteError: The person's state directory can't be written; it is as it was.
        """
        ...

    def idle(self, session_id: str, guards: Sequence[str]) -> AbstractContextManager[None]:
        """Hold a session against all that could work in it; saves go on.

        Args:
            session_id: The session.
            guards: What in its directory is locked by what works there.

        Raises:
            SessionInUse: A run or an execution is at work in it.
            WriteError: The system refused.
        """
        ...


@runtime_checkable
class LocalSessions(SessionRepository, SessionPlaces, Protocol):
    """Sessions, and this machine's places to work on them: what a worker needs."""


def require_own(sessions: LocalSessions, session_id: str) -> None:
    """Refuse a session that is not this person's own.

    Raises:
        SessionNotAdopted: It is not.
    """
    if not sessions.is_own(session_id):
        raise SessionNotAdopted(session_id, where=sessions.where)
