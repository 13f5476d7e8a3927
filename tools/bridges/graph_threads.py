"""The threads of graphs, each followed: an index of it in memory, which knows what was added."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Final, TypeVar
from zlib import crc32

from ..durable import ReadError
from ..harness.errors import StreamMoved
from ..harness.stream_port import NewEntry, StreamEntry, StreamMark
from .errors import UnreadableEntry
from .followed_stream import TRIES, FollowedStream
from .foreign_sessions import ForeignSessions
from .thread_entries import (
    Key,
    ThreadIndex,
    ValuePlace,
    behind_others,
    checkpoint_body,
    entries_of,
)

_FOLLOWED: Final = 64
"""How many threads are followed at a time."""
_REMEMBERED: Final = 16
"""Of how many of its checkpoints a thread remembers where the values are."""

_T = TypeVar("_T")
MakeEntries = Callable[
    [Mapping[str, ValuePlace], bool], tuple[list[NewEntry], dict[str, ValuePlace]]
]
"""Given where the values of a parent are, and whether nothing before it in its namespace is of its
id or a greater one: the entries of a checkpoint, and where its own values are."""


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
        self._places: OrderedDict[Key, Mapping[str, ValuePlace]] = OrderedDict()
        self._stream = FollowedStream(
            sessions,
            name,
            stream,
            forget=self._forget,
            take=self._take,
        )

    def reading(self, look: Callable[[GraphThread], _T]) -> _T:
        """Return what a look at the thread as it is now gives; see `FollowedStream.reading`.

        A look may be repeated, with all entries, where something no longer is where it was noted.
        """
        return self._stream.reading(partial(self._looked, look))

    def know(self, namespace: str, checkpoint_id: str | None = None) -> None:
        """Have the index know a checkpoint, or the last one of a namespace; within a look."""
        while not self.index.knows(namespace, checkpoint_id):
            self._stream.further()

    def know_all(self) -> None:
        """Have the index know all checkpoints; within a look."""
        self._stream.all()

    def bodies(self, entries: Sequence[StreamEntry]) -> list[bytes]:
        """Return the bodies of entries of the index; see `FollowedStream.bodies`.

        Raises:
            UnreadableEntry: One is not what was noted of it.
        """
        bodies = self._stream.bodies(entries)
        if not self.index.whole:
            for entry, body in zip(entries, bodies, strict=True):
                noted = len(body) == entry.size and entry.check in {0, crc32(body)}
                if not noted:
                    raise UnreadableEntry(entry.position, "it is not what was noted of it")
        return bodies

    def everything(self) -> list[NewEntry]:
        """Return all entries, in order; within a look."""
        return self._stream.everything()

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
        with self._stream.lock:
            for left in reversed(range(TRIES)):
                # What it refers to must not be removed meanwhile, nor what it says become untrue.
                # Where others write all the time, it refers to nothing, and says nothing.
                known, first = self._known(key, parent_id) if left else ({}, False)
                entries, places = make(known, first)
                referring = any(place in known.values() for place in places.values())
                try:
                    self.append(entries, expecting=first or referring)
                except StreamMoved:
                    continue
                self.remember(key, places)
                return

    def append(self, entries: Sequence[NewEntry], *, expecting: bool = False) -> None:
        """Add entries; where that is expected, only if the thread is as it was looked at last."""
        seen = self._stream.mark or StreamMark()
        self._stream.append(entries, expected=seen if expecting else None)

    def take_over(self, entries: Sequence[NewEntry]) -> None:
        """Add the entries of another thread, all or none; a thread that is empty has no limit.

        Raises:
            ValueError: They are too many at a time for a thread that is not empty.
            HarnessError: The store refused; nothing was added.
        """
        self.append([])  # which begins it

        def add() -> None:
            self.know_all()
            if self.index.greatest:
                self.append(behind_others(entries), expecting=True)
            else:
                self._stream.replace(entries)

        self._stream.reading(add)

    def keep(self, choose: Callable[[GraphThread], set[Key]]) -> None:
        """Remove all checkpoints but those that are chosen.

        Raises:
            StreamMoved: Others write to it all the time; nothing was removed.
            HarnessError: The store refused; nothing was removed.
        """

        def replace() -> None:
            self.know_all()
            kept = choose(self)
            if kept != self.index.keys:
                self._stream.replace(entries_of(self.index, kept, self.bodies))

        self._stream.reading(replace)

    def _known(self, key: Key, parent_id: str | None) -> tuple[Mapping[str, ValuePlace], bool]:
        """Return where the values of a checkpoint's parent are, and whether it is the first."""

        def look(_: GraphThread) -> tuple[Mapping[str, ValuePlace], bool]:
            places: Mapping[str, ValuePlace] = {}
            if parent_id is not None:
                places = self._parent((key[0], parent_id))
            return places, self.index.is_first(key)

        return self.reading(look)

    def _parent(self, parent: Key) -> Mapping[str, ValuePlace]:
        """Return where the values of a parent are; nothing if it is not there."""
        found = self.index.get(parent)
        if found is None:
            self.know(*parent)
            found = self.index.get(parent)
        if found is None:
            return {}
        places = self._places.get(parent)
        if places is None:
            places = checkpoint_body(found.put_id, self.bodies([found.entry])[0]).places
        return self.index.noted(places)

    def _looked(self, look: Callable[[GraphThread], _T]) -> _T:
        try:
            return look(self)
        except (ReadError, StreamMoved, UnreadableEntry):
            # A copy of a thread may have its entries elsewhere than they were noted.
            if self.index.whole:
                raise
        self.know_all()
        return look(self)

    def _take(self, entries: Sequence[StreamEntry]) -> None:
        self.index.whole = self._stream.whole
        self.index.add(entries)

    def _forget(self) -> None:
        self.index = ThreadIndex()
        self._places.clear()
