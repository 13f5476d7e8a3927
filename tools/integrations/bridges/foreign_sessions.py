"""Sessions identified by the ids of another SDK, which are arbitrary text.

The session id is derived from a hash of the SDK's id, so that all processes find the same session
without a shared index, and two that create it at once create one. The text itself is stored beside
the session, and compared: no id reaches another id's session. The SDK's data is a stream of entries
beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final, ParamSpec, Self, TypeVar

from attrs import define, field

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError, ErrorKind, shown
from ...base.event_log import get_logger
from ...base.files import Patience
from ...fleet.stores import STORE_VARIABLE, open_sessions
from ...harness import (
    LocalSessions,
    SessionConflict,
    SessionContext,
    SessionFilter,
    SessionIdTaken,
    SessionInUse,
    SessionNotFound,
    SessionObserver,
    SessionSummary,
)
from ...harness.domain.session_data import title_fault
from ...harness.errors import StreamMoved
from ...harness.events.session_events import SessionEvents
from ...harness.session_domain import DEFAULT_TOKEN_BUDGET
from ...harness.steps.program_sessions import hashed_session_id
from ...harness.stream_port import NewEntry, StreamMark

FOREIGN_ID: Final = "foreign-id.json"
"""The document beside a session with the other SDK's id."""
SHOWN_AS_CHANGED_AFTER: Final = timedelta(minutes=1)
"""The last change that a session shows may be this much older than its last write."""
_REMEMBERED: Final = 1024
_DELETION_WAIT_S: Final = 10.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class BridgeError(AgentForgeError, kind=ErrorKind.REFUSED):
    """Base of the bridges' errors."""


class ForeignIdTaken(BridgeError, kind=ErrorKind.CONFLICT):
    """The session for another SDK's id belongs to a different id."""

    message = """{foreign_id!r} leads to session {session_id}, which is another's; nothing was read
    or written. Choose another id, or delete that session."""
    foreign_id: str
    session_id: str


class ForeignEntryUnreadable(BridgeError, kind=ErrorKind.INVALID_FILE):
    """An entry of a session's stream is not in this program's format."""

    message = """the entry at {position} of the stream {stream} of session {session_id} can't be
    read: {reason}. Nothing was changed; a newer program may have written it."""
    session_id: str
    stream: str
    position: int
    reason: str


class UnreadableEntry(BridgeError, ValueError, kind=ErrorKind.INVALID_FILE):
    """An entry is not in this program's format."""

    message = "the entry at {position} can't be read: {reason}"
    position: int
    reason: str


def opened_sessions(store: LocalSessions | Path | str | None) -> LocalSessions:
    """Open a store; if None, as the command line does: the one in AGENTFORGE_STORE, or a folder.

    Raises:
        ExtraMissing: It is a database, and the packages for it are not installed.
        InvalidStoreAddress: It is not a store's address.
    """
    if store is None:
        return open_sessions(store=os.environ.get(STORE_VARIABLE) or None)
    if isinstance(store, Path):
        return open_sessions(store)
    return open_sessions(store=store) if isinstance(store, str) else store


@define(eq=False)
class ForeignSessions:
    """The sessions of one other SDK. Instances may be shared between threads.

    Args:
        sessions: The store.
        kind: The SDK, used as the sessions' workflow.
        words: The noun for such a session in its goal.
        clock: The time.
        observers: The observers of sessions that are created here.
    """

    sessions: LocalSessions
    _kind: str
    _words: str = field(kw_only=True)
    _clock: Clock = field(default=utc_now, kw_only=True)
    _observers: Iterable[SessionObserver] = field(default=(), kw_only=True)
    _events: SessionEvents = field(init=False)
    _known: OrderedDict[str, datetime | None] = field(factory=OrderedDict, init=False)
    _mutex: Lock = field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        log = get_logger("agentforge.session")
        self._events = SessionEvents(log, observers=self._observers, clock=self._clock)

    def session_id(self, foreign_id: str) -> str:
        """Return the session id for a foreign id, existing or not."""
        return hashed_session_id(self._kind, foreign_id)

    def find(self, foreign_id: str) -> str | None:
        """Return the id of the foreign id's session, or None if it does not exist.

        Raises:
            ForeignIdTaken: The session belongs to another foreign id.
        """
        session_id = self.session_id(foreign_id)
        if session_id in self._known:
            return session_id
        kept = self.sessions.read_attachment(session_id, FOREIGN_ID)
        if kept is None:
            if not self.sessions.exists(session_id):
                return None
            # It was created since, with its documents; or it is another's.
            kept = self.sessions.read_attachment(session_id, FOREIGN_ID)
        if kept != self._document(foreign_id):
            raise ForeignIdTaken(foreign_id, session_id=session_id)
        self._remember(session_id, None)
        return session_id

    def append(
        self,
        foreign_id: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        """Append entries to the stream of a session; the first ones create it.

        Args:
            foreign_id: Its foreign id.
            entries: The entries.
            expected: As for `SessionStreams.append_entries`.

        Raises:
            ForeignIdTaken: The session belongs to another foreign id.
            InvalidStateTransition: The session has ended.
            StreamMoved: Its stream is not as the caller read it; nothing was written.
            HarnessError: The store refused.
        """
        for last in (False, True):
            session_id = self._ensured(foreign_id)
            try:
                self._touch(session_id)
                self.sessions.append_entries(session_id, self._kind, entries, expected=expected)
            except SessionNotFound:  # another process has deleted it meanwhile
                self._forget(session_id)
                if last:
                    raise
            else:
                return

    def replace(
        self, foreign_id: str, entries: Sequence[NewEntry], *, expected: StreamMark | None
    ) -> None:
        """Replace all entries in the stream of an existing session.

        Raises:
            InvalidStateTransition: The session has ended.
            StreamMoved: Its stream is not as the caller read it; nothing was written.
            HarnessError: The store refused.
        """
        session_id = self.session_id(foreign_id)
        try:
            self.sessions.replace_entries(session_id, self._kind, entries, expected=expected)
        except SessionNotFound as error:  # another process has deleted it meanwhile
            self._forget(session_id)
            raise StreamMoved(session_id, stream=self._kind) from error

    def remove(self, foreign_id: str) -> bool:
        """Delete a session with everything stored in it; return whether it existed.

        Raises:
            ForeignIdTaken: The session belongs to another foreign id.
            SessionInUse: Something is at work in it.
            HarnessError: The store refused.
        """
        session_id = self.find(foreign_id)
        if session_id is None:
            return False
        patience = Patience(_DELETION_WAIT_S)
        while True:
            try:
                deleted = self.sessions.delete(session_id)
            except SessionInUse:  # an append may hold it for a moment
                if not patience.pause():
                    raise
            else:
                self._forget(session_id)
                return deleted

    def names(self) -> Iterator[str]:
        """Yield the foreign ids of all sessions of this SDK, in no order.

        Raises:
            ReadError: The store refused.
        """
        for one in self.sessions.summaries(SessionFilter(workflow_type=self._kind)):
            if not isinstance(one, SessionSummary):
                continue
            kept = self.sessions.read_attachment(one.session_id, FOREIGN_ID)
            name = None if kept is None else _name_in(kept)
            # A fork inherits its parent's foreign id, and is not one of the SDK's sessions.
            if name is not None and self.session_id(name) == one.session_id:
                yield name

    def _ensured(self, foreign_id: str) -> str:
        found = self.find(foreign_id)
        if found is not None:
            return found
        session = SessionContext.create(
            self._kind,
            token_budget=DEFAULT_TOKEN_BUDGET,
            goal=f"{self._words} {shown(foreign_id)}",
            title=shown(foreign_id) if title_fault(foreign_id) else foreign_id,
            session_id=self.session_id(foreign_id),
            now=self._clock(),
        )
        with suppress(SessionIdTaken):  # another process is creating it, too
            self.sessions.save(session, attachments={FOREIGN_ID: self._document(foreign_id)})
            self._events.added(session, 0)
        found = self.find(foreign_id)
        if found is None:
            raise SessionNotFound(session.session_id, path=self.sessions.where)
        return found

    def _touch(self, session_id: str) -> None:
        """Update a session's time of last change before a write: now and then, not each time."""
        now = self._clock()
        last = self._known.get(session_id)
        if last is not None and now - last < SHOWN_AS_CHANGED_AFTER:
            return
        session = self.sessions.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=self.sessions.where)
        if now - session.updated_at >= SHOWN_AS_CHANGED_AFTER and not session.state.is_terminal:
            session.touch(now)
            with suppress(SessionConflict):  # another worker did so
                self.sessions.save(session)
        self._remember(session_id, now)

    def _document(self, foreign_id: str) -> bytes:
        return json.dumps({"bridge": self._kind, "id": foreign_id}).encode()

    def _remember(self, session_id: str, touched: datetime | None) -> None:
        with self._mutex:
            self._known[session_id] = touched
            self._known.move_to_end(session_id)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self, session_id: str) -> None:
        with self._mutex:
            self._known.pop(session_id, None)


class StoreUser:
    """Base of what stores an SDK's data: opens the store, and closes the one it opened."""

    _store: LocalSessions
    _owned: bool

    def _opened(
        self,
        store: LocalSessions | Path | str | None,
        kind: str,
        *,
        words: str,
        clock: Clock,
        observers: Iterable[SessionObserver],
    ) -> ForeignSessions:
        self._store = opened_sessions(store)
        self._owned = self._store is not store
        return ForeignSessions(self._store, kind, words=words, clock=clock, observers=observers)

    def close(self) -> None:
        """Release open resources; a store that was passed in stays open."""
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        """Return it; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return it; it is closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def _name_in(document: bytes) -> str | None:
    try:
        found = json.loads(document)
    except ValueError:
        return None
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


async def in_thread(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a blocking call in a thread of the loop's pool.

    A cancelled caller continues only when the call has ended: what it wrote is complete, and
    nothing is written later in the background.
    """
    task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = cancelled or error
        except BaseException:
            if cancelled is None:
                raise
    if cancelled is not None:
        raise cancelled
    return task.result()
