"""The stream of a foreign session, followed: each read fetches only what was added since the last.

The first look reads the last entries, and earlier ones only on request. Each look starts by
fetching what other processes added, so the result is never older than the call. The most recently
read bodies are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock, RLock
from typing import Final, Generic, TypeVar

from attrs import define, field

from ...harness.errors import StreamMoved
from ...harness.stream_port import NewEntry, StreamEntry, StreamMark
from .foreign_sessions import ForeignEntryUnreadable, ForeignSessions, UnreadableEntry

TRIES: Final = 20
"""How often an operation that another process prevents is tried."""
_FIRST: Final = 32
"""How many entries the first look reads."""
_FURTHER: Final = 8
"""By which factor each further step back reads more."""
_FOLLOWED: Final = 64
"""How many streams are followed at a time."""
_KEPT_BYTES: Final = 1 << 19
"""Largest size of the cached bodies."""

_T = TypeVar("_T")
_F = TypeVar("_F")
_Place = tuple[int, int]
"""A position and a size: an empty body may share its position with the next entry."""


@define(eq=False)
class FollowedStream:
    """The stream of one session. Instances may be shared between threads of the program.

    Args:
        sessions: The sessions.
        name: The foreign id of the session.
        stream: Its stream.
        forget: Called when all entries processed so far are invalid.
        take: Processes newly read entries.

    Attributes:
        name: The foreign id.
        session_id: The session's own id, whether the session exists or not.
        mark: How far the stream was read.
        whole: Whether all of its entries were processed, not only the last.
    """

    _sessions: ForeignSessions
    name: str
    _stream: str
    _forget_all: Callable[[], object] = field(alias="forget", kw_only=True)
    _take: Callable[[Sequence[StreamEntry]], object] = field(kw_only=True)
    session_id: str = field(init=False)
    mark: StreamMark | None = field(default=None, init=False)
    whole: bool = field(default=True, init=False)
    lock: AbstractContextManager[object] = field(factory=RLock, init=False)
    _depth: int = field(default=0, init=False)
    _bodies: OrderedDict[_Place, bytes] = field(factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.session_id = self._sessions.session_id(self.name)

    def reading(self, look: Callable[[], _T]) -> _T:
        """Return the result of a look at the current stream; repeat it if the stream is replaced.

        Raises:
            StreamMoved: It was replaced each time.
            ForeignEntryUnreadable: It contains entries not written by this program.
            HarnessError: The store refused.
        """
        with self.lock:
            for left in reversed(range(TRIES)):
                try:
                    self._refresh()
                    return look()
                except StreamMoved:
                    if not left:
                        raise
                except UnreadableEntry as error:
                    self._forget()
                    raise ForeignEntryUnreadable(
                        self.session_id,
                        stream=self._stream,
                        position=error.position,
                        reason=error.reason,
                    ) from error
        raise AssertionError  # pragma: no cover

    def further(self) -> None:
        """Process more entries before those processed so far; within a look.

        All entries are read and processed again, in their current state.
        """
        self._begin(self._depth * _FURTHER if self._depth else _FIRST)

    def all(self) -> None:
        """Process all entries, if only the last ones were; within a look."""
        if self.whole:
            return
        part = self._sessions.sessions.read_entries(self.session_id, self._stream)
        self._forget()
        self.mark = part.mark
        self._take(part.entries)

    def bodies(self, entries: Sequence[StreamEntry]) -> list[bytes]:
        """Return the bodies of processed entries, in the order given; within a look.

        Raises:
            StreamMoved: The stream was replaced since.
            HarnessError: The store refused.
        """
        missing = [entry for entry in entries if entry[:2] not in self._bodies]
        if not missing:
            return [self._bodies[entry[:2]] for entry in entries]
        read = self._sessions.sessions.read_bodies(
            self.session_id, self._stream, missing, mark=self.mark or StreamMark()
        )
        found = {entry[:2]: body for entry, body in zip(missing, read, strict=True)}
        bodies = [
            found[entry[:2]] if entry[:2] in found else self._bodies[entry[:2]] for entry in entries
        ]
        self._keep(found)
        return bodies

    def everything(self) -> list[NewEntry]:
        """Return all entries with their bodies, in order; within a look."""
        store = self._sessions.sessions
        part = store.read_entries(self.session_id, self._stream)
        bodies = store.read_bodies(self.session_id, self._stream, part.entries, mark=part.mark)
        heads = (entry.head for entry in part.entries)
        return [NewEntry(head, body) for head, body in zip(heads, bodies, strict=True)]

    def append(self, entries: Sequence[NewEntry], *, expected: StreamMark | None = None) -> None:
        """Add entries; see `ForeignSessions.append`."""
        self._sessions.append(self.name, entries, expected=expected)

    def replace(self, entries: Sequence[NewEntry]) -> None:
        """Replace all entries of the stream, if it is as it was read.

        Raises as `ForeignSessions.replace`.
        """
        self._sessions.replace(self.name, entries, expected=self.mark)

    def _keep(self, found: dict[_Place, bytes]) -> None:
        """Cache the bodies just read, as far as there is room."""
        for place in reversed(found):
            size = len(found[place])
            if size > _KEPT_BYTES // 4:
                continue
            self._bodies[place] = found[place]
            self._bytes += size
            if self._bytes > _KEPT_BYTES:
                break
        while self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._bodies.popitem(last=False)[1])

    def _refresh(self) -> None:
        """Process what was added since the last look."""
        if self._sessions.find(self.name) is None:
            self._forget()
            return
        if self.mark is None:
            self._begin(_FIRST)
            return
        part = self._sessions.sessions.read_entries(self.session_id, self._stream, since=self.mark)
        if part.anew:
            self._forget()
        self.mark = part.mark
        self._take(part.entries)

    def _begin(self, depth: int) -> None:
        """Process this many of the last entries, discarding the others."""
        tail = self._sessions.sessions.read_last(self.session_id, self._stream, depth)
        self._forget()
        self.mark, self.whole, self._depth = tail.mark, tail.whole, depth
        self._take(tail.entries)

    def _forget(self) -> None:
        self.mark = None
        self.whole = True
        self._depth = 0
        self._bodies.clear()
        self._bytes = 0
        self._forget_all()


@define(eq=False)
class Followed(Generic[_F]):
    """The sessions that are followed at a time, by their foreign ids.

    Args:
        sessions: The sessions of an SDK.
        make: Follows the one of an id, which may not exist.
    """

    sessions: ForeignSessions
    _make: Callable[[str], _F]
    _followed: OrderedDict[str, _F] = field(factory=OrderedDict, init=False)
    _mutex: Lock = field(factory=Lock, init=False)

    def get(self, name: str) -> _F:
        """Return one, which may not exist."""
        with self._mutex:
            found = self._followed.get(name)
            if found is None:
                found = self._followed[name] = self._make(name)
                if len(self._followed) > _FOLLOWED:
                    self._followed.popitem(last=False)
            self._followed.move_to_end(name)
            return found

    def remove(self, name: str) -> None:
        """Delete one; a missing one is no error. Raises as `ForeignSessions.remove`."""
        self.sessions.remove(name)
        with self._mutex:
            self._followed.pop(name, None)
