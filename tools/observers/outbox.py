"""What waits to be delivered, as a file for each delivery, so that it outlives the process.

A delivery is kept before it is sent and removed when it was taken: it is delivered at least once.
Any number of processes may add to an outbox; one at a time delivers, under the directory's lock.
The names sort as the deliveries were added.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ..clock import Clock, utc_now
from ..durable import (
    AtomicFileWriter,
    DirectoryLock,
    FileSystem,
    LockTimeout,
    OsFileSystem,
    ReadError,
    make_durable_directory,
    read_regular_file,
)
from .delivery import Delivery
from .errors import OutboxFull

MOST_WAITING: Final = 1_000
"""How many deliveries may wait for one receiver."""
MAX_FILE_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"\d{20}-[0-9a-f]{8,64}\.json")
_IGNORE: Final = b"*\n"


class Outbox:
    """The deliveries that wait for one receiver.

    Args:
        directory: Where they are kept; made with the first one.
        webhook: The receiver's name.
        fs: The file system.
        clock: The time.
        most: How many may wait.
    """

    def __init__(
        self,
        directory: Path,
        webhook: str,
        *,
        fs: FileSystem | None = None,
        clock: Clock = utc_now,
        most: int = MOST_WAITING,
    ) -> None:
        self.directory: Final = directory
        self._webhook = webhook
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._last = 0

    def add(self, event: dict[str, object], *, token: str) -> str:
        """Keep an event for the receiver; it is on disk when this returns.

        Args:
            event: The event.
            token: 8 to 64 hexadecimal digits that no other delivery has.

        Returns:
            The name under which it is kept.

        Raises:
            OutboxFull: Too many wait.
            WriteError: It could not be kept.
        """
        created = self._clock().timestamp()
        delivery = Delivery(id=f"evt_{token}", event=event, created=created)
        with self._lock:
            if len(self.names()) >= self._most:
                raise OutboxFull(self._webhook, path=self.directory, most=self._most)
            self._ready()
            self._last = max(self._last + 1, int(created * 1e6))
            name = f"{self._last:020d}-{token}.json"
            self._write(name, delivery)
        return name

    def _ready(self) -> None:
        if self.directory.is_dir():
            return
        make_durable_directory(self._fs, self.directory)
        ignore = self.directory.parent / ".gitignore"
        if not ignore.exists():  # what waits is no part of the repository
            with AtomicFileWriter(ignore, fs=self._fs) as file:
                file.write(_IGNORE)

    def _write(self, name: str, delivery: Delivery) -> None:
        with AtomicFileWriter(self.directory / name, fs=self._fs) as file:
            file.write(delivery.encoded())

    def names(self) -> list[str]:
        """Return the names of what waits, in the order in which it was added."""
        try:
            found = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(one for one in found if _NAME.fullmatch(one))

    def read(self, name: str) -> Delivery | None:
        """Return what waits under a name; None where it was taken meanwhile.

        Raises:
            ReadError: It can't be read.
            ValueError: It is no delivery.
        """
        path = self.directory / name
        data = read_regular_file(self._fs, str(path), path=path, max_bytes=MAX_FILE_BYTES)
        return None if data is None else Delivery.decoded(data)

    def waiting(self) -> Iterator[tuple[str, Delivery | None]]:
        """Go through what waits; None stands for what can't be read."""
        for name in self.names():
            try:
                found = self.read(name)
            except (ReadError, ValueError):
                yield name, None
                continue
            if found is not None:
                yield name, found

    def put_back(self, name: str, delivery: Delivery) -> None:
        """Keep a delivery as it waits now.

        Raises:
            WriteError: It stays as it was.
        """
        self._write(name, delivery)

    def remove(self, name: str) -> None:
        """Forget a delivery that was taken, or never will be.

        Raises:
            OSError: The system refused; it is delivered once more.
        """
        with suppress(FileNotFoundError):
            self._fs.unlink(str(self.directory / name), dir_fd=None)

    @contextmanager
    def delivering(self) -> Iterator[bool]:
        """Hold the outbox against other processes; yields whether none of them holds it."""
        lock = DirectoryLock(self._fs, self.directory, timeout_s=0.0)
        try:
            lock.acquire()
        except (LockTimeout, FileNotFoundError) as error:
            yield isinstance(error, FileNotFoundError)
            return
        try:
            yield True
        finally:
            lock.release()
