"""The stream of a foreign session, followed: what was added since is all that is read of it.

The first look reads the last entries, and what stands before them only when it is asked for.
Reading begins with a look at what other processes added, so what is known of a stream is never
older than the call that uses it. The last bodies that were read are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Final, TypeVar

from attrs import define, field

from ...harness.errors import StreamMoved
from ...harness.stream_port import NewEntry, StreamEntry, StreamMark
from .errors import ForeignEntryUnreadable, UnreadableEntry
from .foreign_sessions import ForeignSessions

TRIES: Final = 20
"""How often what another process prevents is tried again."""
_FIRST: Final = 32
"""How many entries the first look reads."""
_FURTHER: Final = 8
"""How many times more each further step back reads."""
_KEPT_BYTES: Final = 1 << 19
"""How much of the bodies that were read last is kept."""

_T = TypeVar("_T")
_Place = tuple[int, int]
"""A position and a size: what is empty may stand where the next entry does."""


@define(eq=False)
class FollowedStream:
    """The stream of one session. Instances may be shared between threads of the program.

    Args:
        sessions: The sessions.
        name: The foreign id of the one that is followed.
        stream: Its stream.
        forget: Is called when nothing that was taken on holds any more.
        take: Takes on entries that were added.

    Attributes:
        name: The foreign id.
        session_id: The session's own id, whether it is there or not.
        mark: How far it was read.
        whole: Whether all of its entries were taken on, and not only the last.
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
        """Return what a look at the stream as it is now gives; repeated if it changes under it.

        Raises:
            StreamMoved: It did each time.
            ForeignEntryUnreadable: It holds what this program did not write.
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
        """Take on more of what stands before the entries that were taken on; within a look.

        All is taken on anew, and as of now.
        """
        self._begin(self._depth * _FURTHER if self._depth else _FIRST)

    def all(self) -> None:
        """Take on all entries, if only the last ones were; within a look."""
        if self.whole:
            return
        part = self._sessions.sessions.read_entries(self.session_id, self._stream)
        self._forget()
        self.mark = part.mark
        self._take(part.entries)

    def bodies(self, entries: Sequence[StreamEntry]) -> list[bytes]:
        """Return the bodies of entries that were taken on, in the order given; within a look.

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
        """Have the stream hold these entries and no others, if it is as it was read.

        Raises as `ForeignSessions.replace`.
        """
        self._sessions.replace(self.name, entries, expected=self.mark)

    def _keep(self, found: dict[_Place, bytes]) -> None:
        """Keep the bodies that were read last, as far as there is room."""
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
        """Take on what was added since the last look."""
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
        """Take on so many of the last entries."""
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
