"""The threads of graphs, each followed by an index in memory that is updated with additions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from ...base.files import ReadError
from ...harness.errors import StreamMoved
from ...harness.stream_port import NewEntry, StreamEntry, StreamMark
from .followed_stream import TRIES, FollowedStream
from .foreign_sessions import ForeignSessions, UnreadableEntry
from .thread_entries import (
    CheckpointBody,
    IndexedCheckpoint,
    Key,
    ThreadIndex,
    ValuePlace,
    behind_others,
    checkpoint_body,
    entries_of,
)

_REMEMBERED: Final = 16
"""For how many of its checkpoints a thread caches the places of the values."""
_READ: Final = 32
"""For how many of its checkpoints a thread caches the decoded bodies."""

_T = TypeVar("_T")
MakeEntries = Callable[
    [Mapping[str, ValuePlace], "CheckpointOrder"], tuple[list[NewEntry], dict[str, ValuePlace]]
]
"""Makes a checkpoint's entries and the places of its own values, from the places of its parent's
values and its standing among the other checkpoints.
"""


class CheckpointOrder(NamedTuple):
    """The known order of a checkpoint that is about to be written.

    Attributes:
        first: Whether no id before it in its namespace is greater or equal.
        newest: Whether no id before it in any namespace is.
    """

    first: bool = False
    newest: bool = False


class GraphThread:
    """One thread. Instances may be shared between threads of the program.

    Attributes:
        name: Its id.
        index: Its content as of the last look.
    """

    def __init__(self, sessions: ForeignSessions, stream: str, name: str) -> None:
        self.name = name
        self.index = ThreadIndex()
        self._places: OrderedDict[Key, Mapping[str, ValuePlace]] = OrderedDict()
        self._read: OrderedDict[str, CheckpointBody] = OrderedDict()
        self._stream = FollowedStream(
            sessions,
            name,
            stream,
            forget=self._forget,
            take=self._take,
        )

    def reading(self, look: Callable[[GraphThread], _T]) -> _T:
        """Return the result of a look at the current thread; see `FollowedStream.reading`.

        A look may be repeated, with all entries, if something is no longer at its recorded
        position.
        """
        return self._stream.reading(partial(self._looked, look))

    def know(self, namespace: str, checkpoint_id: str | None = None) -> None:
        """Make the index cover a checkpoint, or the last one of a namespace; within a look."""
        while not self.index.knows(namespace, checkpoint_id):
            self._stream.further()

    def know_all(self) -> None:
        """Make the index cover all checkpoints; within a look."""
        self._stream.all()

    def last_keys(
        self,
        fits: Callable[[Key], bool],
        *,
        namespace: str | None,
        below: tuple[str, str] | None,
        least: str,
        count: int,
    ) -> list[Key]:
        """Return the last matching checkpoints, the last one first; within a look.

        No more of the stream is read than needed.

        Args:
            fits: Returns whether a checkpoint matches.
            namespace: The namespace of all matches; None if they may be in any.
            below: Return only checkpoints before this id and namespace; None for the end.
            least: No matching id is less.
            count: How many, if there are so many.
        """
        while True:
            known_from = self.index.known_from(namespace)
            found: list[Key] = []
            for key in self.index.before(below) if known_from is not None else ():
                if key[1] < max(known_from or "", least) or len(found) == count:
                    break
                if fits(key):
                    found.append(key)
            if len(found) == count or (known_from is not None and known_from <= least):
                return found
            self._stream.further()

    def bodies(self, entries: Sequence[StreamEntry]) -> list[bytes]:
        """Return the bodies of entries of the index; see `FollowedStream.bodies`.

        Raises:
            UnreadableEntry: One differs from its recorded size or checksum.
        """
        places = [entry[:2] for entry in entries]
        once = dict(zip(places, entries, strict=True))  # many checkpoints share a value
        found = dict(zip(once, self._stream.bodies(list(once.values())), strict=True))
        if not self.index.whole:
            for entry in once.values():
                body = found[entry[:2]]
                if len(body) != entry.size or (entry.check and entry.check != crc32(body)):
                    raise UnreadableEntry(entry.position, "it is not what was noted of it")
        return [found[place] for place in places]

    def checkpoints(self, found: Sequence[IndexedCheckpoint]) -> list[CheckpointBody]:
        """Return the decoded bodies of checkpoints of the index; the last ones are cached.

        Raises: as `bodies`, and `ValueError` if one is not a checkpoint's.
        """
        missing = [one for one in found if one.put_id not in self._read]
        if missing:
            for one, data in zip(missing, self.bodies([one.entry for one in missing]), strict=True):
                self._read[one.put_id] = checkpoint_body(one.put_id, data)
        bodies = [self._read[one.put_id] for one in found]
        while len(self._read) > _READ:
            self._read.popitem(last=False)
        return bodies

    def everything(self) -> list[NewEntry]:
        """Return all entries, in order; within a look."""
        return self._stream.everything()

    def remember(self, key: Key, places: Mapping[str, ValuePlace]) -> None:
        """Cache the places of a checkpoint's values, for the one that follows it."""
        self._places[key] = places
        self._places.move_to_end(key)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)

    def put(self, key: Key, parent_id: str | None, make: MakeEntries) -> None:
        """Store a checkpoint.

        Args:
            key: Its key.
            parent_id: Its parent, or None.
            make: Makes its entries.

        Raises:
            InvalidStateTransition: The session has ended.
            HarnessError: The store refused; nothing was stored.
        """
        with self._stream.lock:
            for left in reversed(range(TRIES)):
                # What it refers to must not be removed meanwhile, and what it states must stay
                # true. If others
                # write all the time, it refers to nothing and states nothing.
                known, standing = self._known(key, parent_id) if left else ({}, CheckpointOrder())
                entries, places = make(known, standing)
                referring = any(place in known.values() for place in places.values())
                try:
                    self.append(entries, expecting=standing.first or referring)
                except StreamMoved:
                    continue
                self.remember(key, places)
                return

    def append(self, entries: Sequence[NewEntry], *, expecting: bool = False) -> None:
        """Append entries; if `expecting`, only if the thread is unchanged since the last look."""
        seen = self._stream.mark or StreamMark()
        self._stream.append(entries, expected=seen if expecting else None)

    def take_over(self, entries: Sequence[NewEntry]) -> None:
        """Append the entries of another thread, all or none; for an empty thread there is no limit.

        Raises:
            ValueError: They are too many at once for a thread that is not empty.
            HarnessError: The store refused; nothing was added.
        """
        self.append([])  # which creates it

        def add() -> None:
            self.know_all()
            if self.index.greatest:
                self.append(behind_others(entries), expecting=True)
            else:
                self._stream.replace(entries)

        self._stream.reading(add)

    def keep(self, choose: Callable[[GraphThread], set[Key]]) -> None:
        """Remove all checkpoints except the chosen ones.

        Raises:
            StreamMoved: Others kept writing to it; nothing was removed.
            HarnessError: The store refused; nothing was removed.
        """

        def replace() -> None:
            self.know_all()
            kept = choose(self)
            if kept != self.index.keys:
                self._stream.replace(entries_of(self.index, kept, self.bodies))

        self._stream.reading(replace)

    def _known(
        self, key: Key, parent_id: str | None
    ) -> tuple[Mapping[str, ValuePlace], CheckpointOrder]:
        """Return the places of the values of a checkpoint's parent, and its own standing."""

        def look(_: GraphThread) -> tuple[Mapping[str, ValuePlace], CheckpointOrder]:
            places: Mapping[str, ValuePlace] = {}
            if parent_id is not None:
                places = self._parent((key[0], parent_id))
            return places, CheckpointOrder(self.index.is_first(key), self.index.is_newest(key))

        return self.reading(look)

    def _parent(self, parent: Key) -> Mapping[str, ValuePlace]:
        """Return the places of a parent's values; empty if it does not exist."""
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
            # In a copy of a thread, entries may not be at their recorded positions.
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
        self._read.clear()
