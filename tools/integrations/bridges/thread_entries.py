"""The entries that a graph's thread is kept in, and the index that is made of them; pure.

    checkpoint   its head names it, its parent and its run; its body has the checkpoint without its
                 values, and where each value is
    value        the values that came with a checkpoint follow it, in the order that its body says;
                 their heads are empty
    writes       what a task wrote, behind the checkpoint that it ran from

A value that did not change since the parent stays where it is, and is referred to. So a thread
costs what changes in it, and not its state at each step.

The last checkpoint is found without the index of all. LangGraph has it that the last is the one
with the greatest id, wherever it stands. So a checkpoint's head says whether, when it came, nothing
before it in its namespace, checkpoint or writes, was of its id or a greater one: what is of that id
or a greater one then stands behind it. Each reference notes where the value stood, its size and its
checksum, by which a reader sees whether it still does. A head says the same of all namespaces, too
(`newest`), by which the last checkpoints of a thread are listed without the index of all.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from attrs import define, field

from ...harness.stream_port import NewEntry, StreamEntry
from .errors import UnreadableEntry
from .packed import packed, unpacked

Key = tuple[str, str]
"""A checkpoint by its namespace and its id."""
Typed = tuple[str, bytes]
"""A value as a serializer gives it: how it is written, and its bytes."""
_READ_JSON: Final = json.JSONDecoder().raw_decode
_CHECKPOINT: Final = "checkpoint"
_WRITES: Final = "writes"


class ValuePlace(NamedTuple):
    """Where the value of a channel is.

    Attributes:
        put_id: What was put when it came.
        number: Its place among the values that came with it.
        kind: How it is written.
        version: Its version.
        size: Its bytes.
        checksum: Their CRC-32.
        position: Where it stood in the stream when this was noted, if that was known.
    """

    put_id: str
    number: int
    kind: str
    version: Any
    size: int
    checksum: int
    position: int | None = None


class CheckpointBody(NamedTuple):
    """What a checkpoint's body says.

    Attributes:
        checkpoint: The checkpoint without its values.
        metadata: Its metadata.
        places: Where the value of each channel is.
    """

    checkpoint: Typed
    metadata: Typed
    places: Mapping[str, ValuePlace]


@define
class IndexedCheckpoint:
    """A checkpoint as the index knows it.

    Attributes:
        key: Which.
        put_id: What names this putting of it: a checkpoint may be put again.
        parent_id: Its parent in the same namespace, or None.
        run_id: The run that made it, or None.
        first: Whether nothing before it in its namespace is of its id or a greater one.
        newest: Whether nothing before it in any namespace is.
        entry: Its entry.
    """

    key: Key
    put_id: str
    parent_id: str | None
    run_id: str | None
    first: bool
    newest: bool
    entry: StreamEntry


@define
class IndexedWrites:
    """What a task wrote, as the index knows it.

    Attributes:
        task_id: The task.
        task_path: Its path.
        slots: For each write its number, which is fixed for special channels, and its channel.
        entry: Its entry.
    """

    task_id: str
    task_path: str
    slots: list[tuple[int, str]]
    entry: StreamEntry


@define
class ThreadIndex:
    """What a thread has, or what its last entries say of it.

    Attributes:
        whole: Whether it is of all entries.
        checkpoints: Its checkpoints, by namespace and id; of one that was put again, the last.
        values: The values that came with each put.
        writes: What was written behind each checkpoint.
        latest: The greatest id of a checkpoint of each namespace.
        begins: From which id on all of a namespace is known, where that is not all there is.
        greatest: The greatest id that anything of a namespace is of.
        ordered: The checkpoints of all namespaces, by id and namespace.
        begin: From which id on all of the thread is known, where that is not all there is.
        end: The greatest id that anything is of.
    """

    whole: bool = True
    checkpoints: dict[str, dict[str, IndexedCheckpoint]] = field(factory=dict)
    values: dict[str, list[StreamEntry]] = field(factory=dict)
    writes: dict[Key, list[IndexedWrites]] = field(factory=dict)
    latest: dict[str, str] = field(factory=dict)
    begins: dict[str, str] = field(factory=dict)
    greatest: dict[str, str] = field(factory=dict)
    ordered: list[tuple[str, str]] = field(factory=list)
    begin: str | None = None
    end: str = ""

    def add(self, entries: Sequence[StreamEntry]) -> None:
        """Take on entries that were read; those of one append come together.

        Raises:
            UnreadableEntry: One is nothing that this program writes.
        """
        place = 0
        if not self.whole and not self.checkpoints and not self.writes:
            # The end of an append, whose beginning was not read.
            while place < len(entries) and not entries[place].head:
                place += 1
        while place < len(entries):
            entry = entries[place]
            try:
                place += 1 + self._add(entry, entries, place)
            except (ValueError, KeyError, TypeError) as error:
                raise UnreadableEntry(entry.position, str(error)) from error

    def _add(self, entry: StreamEntry, entries: Sequence[StreamEntry], place: int) -> int:
        """Take on an entry; return how many values follow it."""
        head, _ = _READ_JSON(entry.head.decode())  # quicker than `loads`, and there are many
        kind, key = head["kind"], (head["ns"], head["id"])
        self.end = max(key[1], self.end)
        if kind == _CHECKPOINT:
            count = head["values"]
            values = list(entries[place + 1 : place + 1 + count])
            if len(values) != count or any(value.head for value in values):
                raise ValueError("its values are not behind it")
            found = IndexedCheckpoint(
                key,
                head["put"],
                head["parent"],
                head["run"],
                head["first"],
                head["newest"],
                entry,
            )
            self.greatest[key[0]] = max(key[1], self.greatest.get(key[0], ""))
            if found.first:
                self.begins.setdefault(key[0], key[1])
            if found.newest and self.begin is None:
                self.begin = key[1]
            self.values[found.put_id] = values
            space = self.checkpoints.setdefault(key[0], {})
            if key[1] not in space:
                insort(self.ordered, (key[1], key[0]))  # which is its end, mostly
            space[key[1]] = found
            self.latest[key[0]] = max(key[1], self.latest.get(key[0], ""))
            return int(count)
        if kind != _WRITES:
            raise ValueError(f"it is of an unknown kind, {kind!r}")
        slots = [(number, channel) for number, channel in head["writes"]]
        written = IndexedWrites(head["task"], head["path"], slots, entry)
        self.writes.setdefault(key, []).append(written)
        self.greatest[key[0]] = max(key[1], self.greatest.get(key[0], ""))
        return 0

    def knows(self, namespace: str, checkpoint_id: str | None = None) -> bool:
        """Return whether all is known of a checkpoint, or of the last one of a namespace."""
        begin = self.begins.get(namespace)
        return self.whole or (
            begin is not None and (checkpoint_id is None or begin <= checkpoint_id)
        )

    def is_first(self, key: Key) -> bool:
        """Return whether it is known that nothing of a namespace is of this id or a greater one."""
        greatest = self.greatest.get(key[0])
        known = self.knows(key[0]) and (greatest is None or greatest < key[1])
        return known or self.is_newest(key)

    def is_newest(self, key: Key) -> bool:
        """Return whether it is known that nothing of any namespace is of this id or greater."""
        return (self.whole or self.begin is not None) and self.end < key[1]

    def known_from(self, namespace: str | None) -> str | None:
        """Return the id from which on all checkpoints are known; None where none is.

        Args:
            namespace: Those of a namespace; those of all namespaces if None.
        """
        if self.whole:
            return ""
        ids = (self.begin, None if namespace is None else self.begins.get(namespace))
        return min((one for one in ids if one is not None), default=None)

    def before(self, place: tuple[str, str] | None) -> Iterator[Key]:
        """Go through the checkpoints before a place, an id and a namespace, the last ones first."""
        end = len(self.ordered) if place is None else bisect_left(self.ordered, place)
        for at in range(end - 1, -1, -1):
            yield self.ordered[at][1], self.ordered[at][0]

    def get(self, key: Key) -> IndexedCheckpoint | None:
        """Return a checkpoint, or None if there is none of this key."""
        return self.checkpoints.get(key[0], {}).get(key[1])

    def value(self, found: IndexedCheckpoint, place: ValuePlace) -> StreamEntry:
        """Return the entry of a value of a checkpoint.

        Raises:
            UnreadableEntry: It is not there.
        """
        came = self.values.get(place.put_id, [])
        if 0 <= place.number < len(came):
            return came[place.number]
        if self.whole or place.position is None:
            raise UnreadableEntry(found.entry.position, "a value that it refers to is not there")
        return StreamEntry(place.position, place.size, place.checksum, b"")

    def noted(self, places: Mapping[str, ValuePlace]) -> dict[str, ValuePlace]:
        """Return where values are, with the positions that are known now."""
        return {
            channel: place._replace(position=self.values[place.put_id][place.number].position)
            if place.number < len(self.values.get(place.put_id, ()))
            else place
            for channel, place in places.items()
        }

    @property
    def keys(self) -> set[Key]:
        """The checkpoints of all namespaces."""
        return {(space, one) for space, found in self.checkpoints.items() for one in found}


def checkpoint_entries(
    key: Key,
    put_id: str,
    *,
    parent_id: str | None,
    run_id: str | None,
    first: bool,
    newest: bool,
    checkpoint: Typed,
    metadata: Typed,
    own: Mapping[str, tuple[Typed, Any]],
    places: Mapping[str, ValuePlace],
) -> list[NewEntry]:
    """Return the entries of a checkpoint.

    Args:
        key: Which.
        put_id: What names this putting of it, and nothing else of the thread.
        parent_id: Its parent, or None.
        run_id: The run that makes it, or None.
        first: Whether nothing before it in its namespace is of its id or a greater one.
        newest: Whether nothing before it in any namespace is.
        checkpoint: The checkpoint without its values.
        metadata: Its metadata.
        own: The values that it brings, each with its version, by channel.
        places: Where its other values are.
    """
    about = {
        "checkpoint": checkpoint[0],
        "metadata": metadata[0],
        "own": [
            [channel, typed[0], version, len(typed[1]), crc32(typed[1])]
            for channel, (typed, version) in own.items()
        ],
        "others": {channel: list(place) for channel, place in places.items()},
    }
    head = {
        "kind": _CHECKPOINT,
        "ns": key[0],
        "id": key[1],
        "put": put_id,
        "parent": parent_id,
        "run": run_id,
        "first": first,
        "newest": newest,
        "values": len(own),
    }
    return [
        NewEntry(_json(head), packed(about, [checkpoint[1], metadata[1]])),
        *(NewEntry(b"", typed[1]) for typed, _ in own.values()),
    ]


def checkpoint_body(put_id: str, body: bytes) -> CheckpointBody:
    """Read the body of a checkpoint that was put.

    Raises:
        ValueError: It is none.
    """
    about, (checkpoint, metadata) = unpacked(body)
    places = {channel: ValuePlace._make(place) for channel, place in about["others"].items()}
    for number, (channel, *rest) in enumerate(about["own"]):
        places[channel] = ValuePlace(put_id, number, *rest)
    return CheckpointBody((about["checkpoint"], checkpoint), (about["metadata"], metadata), places)


def writes_entry(
    key: Key, task_id: str, task_path: str, writes: Sequence[tuple[int, str, Typed]]
) -> NewEntry:
    """Return the entry of what a task wrote: for each write its number, channel and value."""
    head = {
        "kind": _WRITES,
        "ns": key[0],
        "id": key[1],
        "task": task_id,
        "path": task_path,
        "writes": [[number, channel] for number, channel, _ in writes],
    }
    kinds = [typed[0] for _, _, typed in writes]
    return NewEntry(_json(head), packed({"kinds": kinds}, [typed[1] for _, _, typed in writes]))


def written_values(body: bytes) -> list[Typed]:
    """Read the values of what a task wrote.

    Raises:
        ValueError: They are none.
    """
    about, parts = unpacked(body)
    return list(zip(about["kinds"], parts, strict=True))


def entries_of(
    index: ThreadIndex, kept: set[Key], read: Callable[[Sequence[StreamEntry]], list[bytes]]
) -> list[NewEntry]:
    """Return a thread's entries with some of its checkpoints, in their order.

    A value that a checkpoint goes on with is kept, even where the one that brought it is not.

    Args:
        index: The thread.
        kept: The checkpoints, with what was written behind them.
        read: Returns the bodies of entries.
    """
    ordered = sorted(
        (found for key in kept if (found := index.get(key)) is not None),
        key=lambda found: found.entry.position,
    )
    staying = {found.put_id for found in ordered}
    moved: dict[tuple[str, int], tuple[str, int]] = {}
    made: list[tuple[int, list[NewEntry]]] = []
    for found in ordered:
        body = checkpoint_body(found.put_id, read([found.entry])[0])
        # Its own values first, as they are numbered: others refer to them.
        own = {
            channel: ((place.kind, read([index.value(found, place)])[0]), place.version)
            for channel, place in sorted(body.places.items(), key=lambda one: one[1].number)
            if place.put_id == found.put_id
        }
        others: dict[str, ValuePlace] = {}
        for channel, place in body.places.items():
            came = (place.put_id, place.number)
            if place.put_id == found.put_id:
                continue
            if place.put_id in staying or came in moved:
                put_id, number = moved.get(came, came)
                others[channel] = place._replace(put_id=put_id, number=number, position=None)
            else:
                moved[came] = (found.put_id, len(own))
                value = read([index.value(found, place)])[0]
                own[channel] = ((place.kind, value), place.version)
        entries = checkpoint_entries(
            found.key,
            found.put_id,
            parent_id=found.parent_id,
            run_id=found.run_id,
            first=found.first,
            newest=found.newest,
            checkpoint=body.checkpoint,
            metadata=body.metadata,
            own=own,
            places=others,
        )
        made.append((found.entry.position, entries))
    for key, all_written in index.writes.items():
        for written in all_written if key in kept else ():
            entry = NewEntry(written.entry.head, read([written.entry])[0])
            made.append((written.entry.position, [entry]))
    made.sort(key=lambda one: one[0])
    return [entry for _, entries in made for entry in entries]


def behind_others(entries: Sequence[NewEntry]) -> list[NewEntry]:
    """Return the entries of a thread as they may be added to one that has some."""
    return [
        NewEntry(_json({**head, "first": False, "newest": False}), entry.body)
        if entry.head and (head := json.loads(entry.head))["kind"] == _CHECKPOINT
        else entry
        for entry in entries
    ]


def _json(head: Mapping[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":")).encode()
