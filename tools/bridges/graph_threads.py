"""The threads of graphs, each followed: an index of it in memory, which knows what was added since.

Reading and writing begin with a look at what other processes added, so an index is never older than
the call that uses it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, RLock
from typing import Final, TypeVar

from ..harness.errors import StreamMoved
from ..harness.stream_port import NewEntry, StreamEntry, StreamMark
from .errors import ForeignEntryUnreadable
from .foreign_sessions import ForeignSessions
from .thread_entries import (
    Key,
    ThreadIndex,
    UnreadableEntry,
    ValuePlace,
    checkpoint_body,
    entries_of,
)

_FOLLOWED: Final = 64
"""How many threads are followed at a time."""
_REMEMBERED: Final = 16
"""Of how many of its checkpoints a thread remembers where the values are."""
_TRIES: Final = 20
"""How often what another process prevents is tried."""

_T = TypeVar("_T")
MakeEntries = Callable[[Mapping[str, ValuePlace]], tuple[list[NewEntry], dict[str, ValuePlace]]]
"""Given where the values of a parent are: the entries of a checkpoint, and where its own are."""


class GraphThreads:
    """The threads of one store.

    Args:
        sessions: The sessions that they are kept in.
        stream: The stream of each.
    """

    def __init__(self, sessions: ForeignSessions, stream: str) -> None:
        self.sessions = sessions
        self._stream = stream
        self._followed: OrderedDict[str, GraphThread] = OrderedDict()
        self._mutex = Lock()

    def get(self, name: str) -> GraphThread:
        """Return a thread, which need not be there."""
        with self._mutex:
            thread = self._followed.get(name)
            if thread is None:
                thread = self._followed[name] = GraphThread(self.sessions, self._stream, name)
                if len(self._followed) > _FOLLOWED:
                    self._followed.popitem(last=False)
            self._followed.move_to_end(name)
            return thread

    def remove(self, name: str) -> None:
        """Delete a thread's session; one that is not there is no error."""
        self.sessions.remove(name)
        with self._mutex:
            self._followed.pop(name, None)


class GraphThread:
    """One thread. Instances may be shared between threads of the program.

    Attributes:
        name: Its id.
        index: What it has, as it was looked at last.
    """

    def __init__(self, sessions: ForeignSessions, stream: str, name: str) -> None:
        self.name = name
        self.index = ThreadIndex()
        self._sessions = sessions
        self._stream = stream
        self._session_id = sessions.session_id(name)
        self._mark: StreamMark | None = None
        self._places: OrderedDict[Key, Mapping[str, ValuePlace]] = OrderedDict()
        self._lock = RLock()

    def reading(self, look: Callable[[GraphThread], _T]) -> _T:
        """Return what a look at the thread as it is now gives; repeated if it changes under it.

        Raises:
            StreamMoved: It was replaced each time.
            ForeignEntryUnreadable: It holds what this program did not write.
            HarnessError: The store refused.
        """
        with self._lock:
            for last in (*[False] * _TRIES, True):
                try:
                    self._refresh()
                    return look(self)
                except StreamMoved:
                    if last:
                        raise
                except UnreadableEntry as error:
                    self._mark = None
                    raise ForeignEntryUnreadable(
                        self._session_id,
                        stream=self._stream,
                        position=error.position,
                        reason=error.reason,
                    ) from error
        raise AssertionError  # pragma: no cover

    def bodies(self, entries: Sequence[StreamEntry]) -> list[bytes]:
        """Return the bodies of entries of the index, in the order given; within a look.

        Raises:
            StreamMoved: The thread was replaced since.
            HarnessError: The store refused.
        """
        if not entries:
            return []
        return self._sessions.sessions.read_bodies(
            self._session_id, self._stream, entries, mark=self._mark or StreamMark()
        )

    def remember(self, key: Key, places: Mapping[str, ValuePlace]) -> None:
        """Remember where the values of a checkpoint are, for the one that follows it."""
        self._places[key] = places
        self._places.move_to_end(key)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)

    def put(self, key: Key, parent_id: str | None, make: MakeEntries) -> None:
        """Keep a checkpoint.

        Args:
            key: Which.
            parent_id: Its parent, or None.
            make: Makes its entries.

        Raises:
            InvalidStateTransition: The session has ended.
            HarnessError: The store refused; nothing was kept.
        """
        with self._lock:
            for last in (*[False] * _TRIES, True):
                # What it refers to must not be removed meanwhile. Where others write all the time,
                # it refers to nothing.
                known = {} if last or parent_id is None else self._known((key[0], parent_id))
                entries, places = make(known)
                referring = any(place in known.values() for place in places.values())
                try:
                    self.append(entries, expected=self._mark if referring else None)
                except StreamMoved:
                    continue
                self.remember(key, places)
                return

    def append(self, entries: Sequence[NewEntry], *, expected: StreamMark | None = None) -> None:
        """Add entries; see `ForeignSessions.append`."""
        self._sessions.append(self.name, entries, expected=expected)

    def take_over(self, entries: Sequence[NewEntry]) -> None:
        """Add the entries of another thread, all or none; a thread that is empty has no limit.

        Raises:
            ValueError: They are too many at a time for a thread that is not empty.
            HarnessError: The store refused; nothing was added.
        """
        self.append([])  # which begins it

        def add(thread: GraphThread) -> None:
            if thread.index.keys:
                thread.append(entries, expected=thread._mark)
            else:
                thread._sessions.replace(thread.name, entries, expected=thread._mark)

        self.reading(add)

    def keep(self, choose: Callable[[GraphThread], set[Key]]) -> None:
        """Remove all checkpoints but those that are chosen.

        Raises:
            StreamMoved: Others write to it all the time; nothing was removed.
            HarnessError: The store refused; nothing was removed.
        """

        def replace(thread: GraphThread) -> None:
            kept = choose(thread)
            if kept == thread.index.keys:
                return
            entries = entries_of(thread.index, kept, thread.bodies)
            thread._sessions.replace(thread.name, entries, expected=thread._mark)

        self.reading(replace)

    def everything(self) -> list[NewEntry]:
        """Return all entries, in order; within a look."""
        part = self._sessions.sessions.read_entries(self._session_id, self._stream)
        bodies = self._sessions.sessions.read_bodies(
            self._session_id, self._stream, part.entries, mark=part.mark
        )
        heads = (entry.head for entry in part.entries)
        return [NewEntry(head, body) for head, body in zip(heads, bodies, strict=True)]

    def _known(self, parent: Key) -> Mapping[str, ValuePlace]:
        """Return where the values of a parent are, as of now; nothing if it is not there."""

        def look(thread: GraphThread) -> Mapping[str, ValuePlace]:
            found = thread.index.get(parent)
            if found is None:
                return {}
            places = thread._places.get(parent)
            if places is None:
                places = checkpoint_body(found.put_id, thread.bodies([found.entry])[0]).places
            return places

        return self.reading(look)

    def _refresh(self) -> None:
        """Take on what was added since the last look."""
        if self._sessions.find(self.name) is None:
            self._forget()
            return
        part = self._sessions.sessions.read_entries(
            self._session_id, self._stream, since=self._mark
        )
        if part.anew:
            self._forget()
        self._mark = part.mark
        self.index.add(part.entries)

    def _forget(self) -> None:
        self.index = ThreadIndex()
        self._mark = None
        self._places.clear()
