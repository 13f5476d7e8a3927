"""The stream entries that store a graph's thread, and the index built from them; pure.

    checkpoint   its head names it, its parent and its run; its body has the checkpoint without its
                 values, and the place of each value
    value        the values that came with a checkpoint follow it, in the order given by its body;
                 their heads are empty
    writes       what a task wrote, after the checkpoint that it ran from

A value that did not change since the parent stays where it is, and is referred to. So a thread
stores what changes in it, not its state at each step.

The last checkpoint is found without a complete index. In LangGraph the last one is the one with the
greatest id, at any position. So a checkpoint's head says whether, when it was written, no id before
it in its namespace, of a checkpoint or of writes, was greater or equal: all such ids then come
after it. Each reference records the value's position, size and checksum, by which a reader detects
whether it is still there. A head says the same for all namespaces, too (`newest`), so that the last
checkpoints of a thread are listed without a complete index.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from attrs import define, field

from ...harness.stream_port import NewEntry, StreamEntry
from .foreign_sessions import UnreadableEntry
from .packed import packed, unpacked

Key = tuple[str, str]
"""A checkpoint's namespace and id."""
Typed = tuple[str, bytes]
"""A serialized value: the name of its format, and its bytes."""
_READ_JSON: Final = json.JSONDecoder().raw_decode
_CHECKPOINT: Final = "checkpoint"
_WRITES: Final = "writes"


class ValuePlace(NamedTuple):
    """The place of a channel's value.

    Attributes:
        put_id: The put that stored it.
        number: Its number among the values of that put.
        kind: Its serialization format.
        version: Its version.
        size: Its length in bytes.
        checksum: The CRC-32 of its bytes.
        position: Its position in the stream when this was recorded, if known.
    """

    put_id: str
    number: int
    kind: str
    version: Any
    size: int
    checksum: int
    position: int | None = None


class CheckpointBody(NamedTuple):
    """The decoded body of a checkpoint.

    Attributes:
        checkpoint: The checkpoint without its values.
        metadata: Its metadata.
        places: The place of each channel's value.
    """

    checkpoint: Typed
    metadata: Typed
    places: Mapping[str, ValuePlace]


@define
class IndexedCheckpoint:
    """A checkpoint in the index.

    Attributes:
        key: Its key.
        put_id: Identifies this put of it: a checkpoint may be put again.
        parent_id: Its parent in the same namespace, or None.
        run_id: The run that made it, or None.
        first: Whether no id before it in its namespace is greater or equal.
        newest: Whether no id before it in any namespace is.
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
    """A task's writes in the index.

    Attributes:
        task_id: The task.
        task_path: Its path.
        slots: Each write's number, which is fixed for special channels, and channel.
        entry: Its entry.
    """

    task_id: str
    task_path: str
    slots: list[tuple[int, str]]
    entry: StreamEntry


@define
class ThreadIndex:
    """The index of a thread's entries, or of its last ones.

    Attributes:
        whole: Whether it covers all entries.
        checkpoints: The checkpoints, by namespace and id; the last put of each.
        values: The values of each put.
        writes: The writes after each checkpoint.
        latest: The greatest checkpoint id of each namespace.
        begins: The id from which on a namespace is complete, if the index is not.
        greatest: The greatest id of any entry of each namespace.
        ordered: The checkpoints of all namespaces, by id and namespace.
        begin: The id from which on the thread is complete, if the index is not.
        end: The greatest id of any entry.
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
        """Index entries that were read; those of one append come together.

        Raises:
            UnreadableEntry: One is not in this program's format.
        """
        place = 0
        if not self.whole and not self.checkpoints and not self.writes:
            # The end of an append whose first entries were not read.
            while place < len(entries) and not entries[place].head:
                place += 1
        while place < len(entries):
            entry = entries[place]
            try:
                place += 1 + self._add(entry, entries, place)
            except (ValueError, KeyError, TypeError) as error:
                raise UnreadableEntry(entry.position, str(error)) from error

    def _add(self, entry: StreamEntry, entries: Sequence[StreamEntry], place: int) -> int:
        """Index an entry; return how many values follow it."""
        head, _ = _READ_JSON(entry.head.decode())  # faster than `loads`, and there are many
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
                insort(self.ordered, (key[1], key[0]))  # usually at the end
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
        """Return whether the index covers a checkpoint, or the last one of a namespace."""
        begin = self.begins.get(namespace)
        return self.whole or (
            begin is not None and (checkpoint_id is None or begin <= checkpoint_id)
        )

    def is_first(self, key: Key) -> bool:
        """Return whether it is certain that no id in the namespace is greater or equal."""
        greatest = self.greatest.get(key[0])
        known = self.knows(key[0]) and (greatest is None or greatest < key[1])
        return known or self.is_newest(key)

    def is_newest(self, key: Key) -> bool:
        """Return whether it is certain that no id in any namespace is greater or equal."""
        return (self.whole or self.begin is not None) and self.end < key[1]

    def known_from(self, namespace: str | None) -> str | None:
        """Return the id from which on all checkpoints are indexed; None if there is none.

        Args:
            namespace: The namespace; all of them if None.
        """
        if self.whole:
            return ""
        ids = (self.begin, None if namespace is None else self.begins.get(namespace))
        return min((one for one in ids if one is not None), default=None)

    def before(self, place: tuple[str, str] | None) -> Iterator[Key]:
        """Yield the checkpoints before an id and namespace, the last ones first."""
        end = len(self.ordered) if place is None else bisect_left(self.ordered, place)
        for at in range(end - 1, -1, -1):
            yield self.ordered[at][1], self.ordered[at][0]

    def get(self, key: Key) -> IndexedCheckpoint | None:
        """Return a checkpoint, or None if it does not exist."""
        return self.checkpoints.get(key[0], {}).get(key[1])

    def value(self, found: IndexedCheckpoint, place: ValuePlace) -> StreamEntry:
        """Return the entry of a checkpoint's value.

        Raises:
            UnreadableEntry: It does not exist.
        """
        came = self.values.get(place.put_id, [])
        if 0 <= place.number < len(came):
            return came[place.number]
        if self.whole or place.position is None:
            raise UnreadableEntry(found.entry.position, "a value that it refers to is not there")
        return StreamEntry(place.position, place.size, place.checksum, b"")

    def noted(self, places: Mapping[str, ValuePlace]) -> dict[str, ValuePlace]:
        """Return the places of values, with the positions known now."""
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
        key: Its key.
        put_id: Identifies this put of it, uniquely in the thread.
        parent_id: Its parent, or None.
        run_id: The run that makes it, or None.
        first: Whether no id before it in its namespace is greater or equal.
        newest: Whether no id before it in any namespace is.
        checkpoint: The checkpoint without its values.
        metadata: Its metadata.
        own: The values stored with it, each with its version, by channel.
        places: The places of its other values.
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
    """Decode the body of a checkpoint.

    Raises:
        ValueError: It is not a checkpoint's body.
    """
    about, (checkpoint, metadata) = unpacked(body)
    places = {channel: ValuePlace._make(place) for channel, place in about["others"].items()}
    for number, (channel, *rest) in enumerate(about["own"]):
        places[channel] = ValuePlace(put_id, number, *rest)
    return CheckpointBody((about["checkpoint"], checkpoint), (about["metadata"], metadata), places)


def writes_entry(
    key: Key, task_id: str, task_path: str, writes: Sequence[tuple[int, str, Typed]]
) -> NewEntry:
    """Return the entry of a task's writes, each given as number, channel and value."""
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
    """Decode the values of a task's writes.

    Raises:
        ValueError: `body` is not the body of writes.
    """
    about, parts = unpacked(body)
    return list(zip(about["kinds"], parts, strict=True))


def entries_of(
    index: ThreadIndex, kept: set[Key], read: Callable[[Sequence[StreamEntry]], list[bytes]]
) -> list[NewEntry]:
    """Return a thread's entries with only some of its checkpoints, in order.

    A value that a remaining checkpoint uses is preserved, even if the checkpoint that stored it is
    not.

    Args:
        index: The thread.
        kept: The remaining checkpoints, with the writes after them.
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
        # Its own values first, in their numbering: others refer to them.
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
    """Return a thread's entries in a form that can be appended to a thread with entries."""
    return [
        NewEntry(_json({**head, "first": False, "newest": False}), entry.body)
        if entry.head and (head := json.loads(entry.head))["kind"] == _CHECKPOINT
        else entry
        for entry in entries
    ]


def _json(head: Mapping[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":")).encode()
