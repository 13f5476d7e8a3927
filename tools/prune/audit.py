"""What was removed, when, why and by whom: one JSON object a line, written before it happens.

    {"at": "2026-03-01T04:00:00.000000Z", "event": "removing", "kind": "sandbox", "session_id": …,
     "hidden": …, "size_bytes": …, "dated_at": …, "reasons": ["expired"], "run": …, "by": {…}}

`removing` is on the disk before the session is out of sight; `removed`, `unfinished` or `kept` says
what became of it. A session that is gone without the second line was being removed when the process
died; the next prune finishes it and writes `finished`.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import socket
import stat
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Final

from tools.durable import FileSystem, hand_over
from tools.durable.directories import sync_directory
from tools.durable.filesystem import close_reader

AUDIT_NAME: Final = "audit.jsonl"
"""The log's name in a root's private directory."""

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def actor() -> dict[str, object]:
    """Say who this process is: user, uid, process id, host and program."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return {
        "user": user,
        "uid": os.getuid(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
    }


class AuditLog:
    """An append-only log in a root's private directory.

    Guarantees: when `write` returns with `sync`, its lines survive a power failure. A line that a
    crash cut off is ended before the next one begins.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory_fd: int,
        *,
        run: str,
        by: Mapping[str, object],
        path: Path | None = None,
    ) -> None:
        """Open the log, and make it if it is missing.

        Args:
            fs: The file system.
            directory_fd: The private directory, open.
            run: A text that all lines of this prune have in common.
            by: Who prunes.
            path: Another file to write to, for a root whose disk is full; None for the usual one.

        Raises:
            OSError: It can't be opened, or is no regular file.
        """
        self._fs = fs
        self._tail = "," + _encode({"run": run, "by": dict(by)})[1:]
        self._pending: list[bytes] = []
        self._stamp: tuple[datetime | None, str] = (None, "")
        name, where = (AUDIT_NAME, directory_fd) if path is None else (os.fspath(path), None)
        try:
            self._fd = fs.open(name, _FLAGS, 0o600, dir_fd=where)
        except OSError as error:
            said = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise OSError(error.errno, f"the audit log {name} can't be opened: {said}") from error
        try:
            status = fs.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"the audit log {name} is no regular file")  # noqa: TRY301
            if status.st_nlink > 1:  # what is written to it would be written elsewhere too
                raise OSError(f"the audit log {name} has several names")  # noqa: TRY301
            if status.st_size == 0:  # it may be new: its name must survive as well
                if path is None and status.st_uid == os.geteuid():
                    hand_over(fs, self._fd, directory_fd)
                if path is None:
                    fs.fsync(directory_fd)
                else:
                    sync_directory(fs, path.parent)
            elif fs.pread(self._fd, 1, status.st_size - 1) != b"\n":
                self._pending.append(b"\n")
        except BaseException:
            close_reader(fs, self._fd)
            raise

    def add(self, event: str, *, at: datetime, **fields: object) -> None:
        """Add a line, to be written with the next `write`."""
        if self._stamp[0] is not at:  # a batch is announced at one time
            text = at.astimezone(UTC).isoformat(timespec="microseconds")
            self._stamp = (at, text.replace("+00:00", "Z"))
        line = {"at": self._stamp[1], "event": event, **fields}
        self._pending.append(f"{_encode(line)[:-1]}{self._tail}\n".encode("ascii"))

    def write(self, *, sync: bool = True) -> None:
        """Write the lines that were added.

        Raises:
            OSError: They could not be written, or their durability could not be confirmed; some
                may be there, and those that are pending are dropped. What is written later is
                readable all the same.
        """
        lines, self._pending = self._pending, []
        _, error = self._put(lines)
        if error is not None:
            raise error
        if lines and sync:
            self._fs.fsync(self._fd)

    def announce(self, count: int) -> tuple[int, OSError | None]:
        """Write the lines that were added, as many as the disk has room for, and sync them.

        Args:
            count: How many of them, at the end, announce something that is about to happen.

        Returns:
            How many of these are on the disk, the first ones, and what stood against the rest. The
            rest is dropped; lines before it that were not written stay pending.
        """
        lines, self._pending = self._pending, []
        before = len(lines) - count
        written, error = self._put(lines)
        self._pending += lines[written:before]
        if written > before:
            try:
                self._fs.fsync(self._fd)
            except OSError as failed:
                return 0, failed
        return max(written - before, 0), error

    def _put(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Write lines; return how many are whole, and what stood against the rest."""
        data = memoryview(b"".join(lines))
        done = 0
        try:
            while done < len(data):
                done += self._fs.writev(self._fd, [data[done:]])
        except OSError as error:
            self._pending.append(b"\n")  # that ends the line it was in
            ends = accumulate(map(len, lines))
            return sum(end <= done for end in ends), error
        except BaseException:
            self._pending.append(b"\n")
            raise
        return len(lines), None

    def close(self) -> None:
        """Close the log; what was added and not written is lost."""
        close_reader(self._fs, self._fd)


def read_audit(path: Path) -> Sequence[Mapping[str, object]]:
    """Read an audit log, leaving out what is no line of one (such as one a crash cut off).

    Args:
        path: The file; no lines if it is missing.

    Raises:
        OSError: The system would not read it.
    """
    try:
        with open(path, "rb") as log:
            lines = log.read().split(b"\n")
    except FileNotFoundError:
        return []
    read = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            read.append(entry)
    return read
