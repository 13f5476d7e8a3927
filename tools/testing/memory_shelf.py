"""What stores in memory share, and the locks, streams and receivers on it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from attrs import define, field

from ..base.files import LockTimeout, WriteError
from ..base.files.log_frames import encode_log
from ..harness.feed_port import LeftEvent
from ..harness.stream_port import NewEntry, StreamMark

WHERE: Final = "memory://sessions"


@define
class MemoryStream:
    """A stream's entries.

    Attributes:
        generation: Differs for each stream that ever had this name.
    """

    generation: int
    entries: list[NewEntry] = field(factory=list)

    @property
    def mark(self) -> StreamMark:
        """How far the stream goes."""
        return StreamMark(self.generation, len(self.entries))

    @property
    def document(self) -> bytes:
        """The stream as every store exports it."""
        return encode_log(self.entries)


@define
class Shelf:
    """What several stores share, as several processes share a server.

    `MemorySessions(here, shelf)` and `MemorySessions(there, shelf)` are two machines with the same
    sessions, locks and streams; only their folders differ.
    """

    documents: dict[str, bytes] = field(factory=dict)
    attachments: dict[str, dict[str, bytes]] = field(factory=dict)
    streams: dict[str, dict[str, MemoryStream]] = field(factory=dict)
    held: set[tuple[str, str]] = field(factory=set)
    lock: threading.RLock = field(factory=threading.RLock)
    receivers: dict[str, bytes] = field(factory=dict)
    telling: set[str] = field(factory=set)
    left: dict[tuple[str, str], list[LeftEvent]] = field(factory=dict)
    generations: Iterator[int] = field(factory=lambda: count(1))

    def stream(self, entries: Iterable[NewEntry]) -> MemoryStream:
        """Return a new stream with these entries."""
        return MemoryStream(next(self.generations), list(entries))

    def is_held(self, session_id: str) -> bool:
        """Return whether any lock of a session is taken."""
        with self.lock:
            return any(held == session_id for held, _ in self.held)


class MemoryLock:
    """The lock of a run. A `harness.session_ports.RunLock`.

    It is taken or refused at once; nobody waits for it.
    """

    def __init__(self, shelf: Shelf, session_id: str, name: str) -> None:
        self._shelf = shelf
        self._key = (session_id, name)

    def acquire(self) -> None:
        """Take the lock; see `RunLock`."""
        session_id, name = self._key
        with self._shelf.lock:
            if name not in self._shelf.attachments.get(session_id, {}):
                raise FileNotFoundError(name)
            if self._key in self._shelf.held:
                raise LockTimeout(path=Path(*self._key), timeout_s=0.0)
            self._shelf.held.add(self._key)

    def release(self) -> None:
        """Release the lock."""
        with self._shelf.lock:
            self._shelf.held.discard(self._key)


class MemoryReceiver:
    """The state of an event receiver. A `harness.feed_port.Receiver`."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        self._shelf = shelf
        self._name = name
        self.where = f"{WHERE}/{name}"

    @contextmanager
    def held(self, *, timeout_s: float = 0.0) -> Iterator[bool]:
        """Lock the receiver; yield whether the lock was obtained, without a wait."""
        del timeout_s
        with self._shelf.lock:
            free = self._name not in self._shelf.telling
            self._shelf.telling.add(self._name)
        try:
            yield free
        finally:
            if free:
                self._shelf.telling.discard(self._name)

    def read(self) -> bytes | None:
        """Return the saved state, or None."""
        return self._shelf.receivers.get(self._name)

    def keep(self, data: bytes) -> None:
        """Save the delivery state; only while the receiver is locked."""
        if self._name not in self._shelf.telling:
            raise WriteError(path=Path(self._name), operation="write without holding it")
        self._shelf.receivers[self._name] = data

    def left(self) -> dict[str, list[LeftEvent]]:
        """Return the undelivered events of removed sessions."""
        left = self._shelf.left
        return {one: events for (name, one), events in left.items() if name == self._name}

    def forget_left(self, session_id: str) -> None:
        """Discard the events of a removed session."""
        self._shelf.left.pop((self._name, session_id), None)

    def forget(self) -> None:
        """Discard the receiver's whole state."""
        self._shelf.receivers.pop(self._name, None)
        for name, session_id in [one for one in self._shelf.left if one[0] == self._name]:
            del self._shelf.left[name, session_id]
