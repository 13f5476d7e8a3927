"""What was removed, when, why and by whom: one JSON object per line, written before the removal.

    {"at": "2026-03-01T04:00:00.000000Z", "event": "removing", "kind": "sandbox", "session_id": …,
     "hidden": …, "size_bytes": …, "dated_at": …, "reasons": ["expired"], "run": …, "by": {…}}

`removing` is on the disk before the session is out of sight; `removed`, `unfinished` or `kept` says
how it ended. Without that second line, the session was being removed when the process died; the
next prune finishes it and writes `finished`.

A log of `ROTATED_AT_BYTES` becomes `audit.jsonl.1`, the one before it `.2`, and so on. On a full
disk, lines are written to the reserve (`audit_reserve`) until the log has room.
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
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from ..base.files import FileSystem, hand_over
from ..base.files.directory_store import sync_directory
from ..base.files.filesystem import close_reader
from ..base.files.regular_file import create_file
from .audit_reserve import FULL, RESERVE_BYTES, RESERVE_NAME, Reserve, is_there

ROTATED_AT_BYTES: Final = 8 << 20
"""The size in bytes from which a new log is started."""

KEPT_LOGS: Final = 9
"""The number of former logs to retain."""

AUDIT_NAME: Final = "audit.jsonl"
"""The log's name in a root's private directory."""

_LONGEST_LINE: Final = 1 << 20
"""How far back from the end to look for the start of a torn line, in bytes."""
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def actor() -> dict[str, object]:
    """Return who this process is: user, uid, process id, host and program."""
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

    Guarantees: when `write` returns with `sync`, its lines survive a power failure. A torn line,
    which a crash or a full disk can leave, is cut off before the next one is written; it was never
    acknowledged. In a file of the caller's, which others may be writing to, it is ended with a line
    break instead.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory_fd: int,
        *,
        run: str,
        by: Mapping[str, object],
        path: Path | None = None,
        root: Path | None = None,
        rotated_at: int = ROTATED_AT_BYTES,
    ) -> None:
        """Open the log; create it if it is missing.

        Args:
            fs: The file system.
            directory_fd: The private directory, open.
            run: A text that all lines of this prune have in common.
            by: The actor of the prune.
            path: Another file to write to, for a root whose disk is full; None for the usual one.
                It is not rotated, and its lines name their root.
            root: That root.
            rotated_at: The size in bytes from which a new log is started.

        Raises:
            OSError: It can't be opened, or is no regular file.
        """
        self._fs = fs
        said: dict[str, object] = {"run": run, "by": dict(by)}
        if path is not None and root is not None:
            said["root"] = os.path.abspath(root)
        self._tail = "," + _encode(said)[1:]
        self._pending: list[bytes] = []
        self._torn = False
        self._stamp: tuple[datetime | None, str] = (None, "")
        self._reserve: Reserve | None = None
        if path is None:
            _rotate(fs, directory_fd, rotated_at)
        self._fd = self._opened(directory_fd, path)
        self._ours_alone = path is None  # its writers lock the private directory
        self._mend()
        if path is None:
            with suppress(OSError):  # an older root may have none
                self._reserve = Reserve(fs, directory_fd)
            self._drain()

    def _opened(self, directory_fd: int, path: Path | None) -> int:
        """Open the log, and check that it is a regular file of one name."""
        fs = self._fs
        name, where = (AUDIT_NAME, directory_fd) if path is None else (os.fspath(path), None)
        try:
            fd = fs.open(name, _FLAGS, 0o600, dir_fd=where)
        except OSError as error:
            said = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise OSError(error.errno, f"the audit log {name} can't be opened: {said}") from error
        try:
            status = fs.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"the audit log {name} is no regular file")  # noqa: TRY301
            if status.st_nlink > 1:  # lines written to it would appear under the other name too
                raise OSError(f"the audit log {name} has several names")  # noqa: TRY301
            if status.st_size == 0:  # it may be new: its name must be durable as well
                if path is None and status.st_uid == os.geteuid():
                    hand_over(fs, fd, directory_fd)
                if path is None:
                    fs.fsync(directory_fd)
                else:
                    sync_directory(fs, path.parent)
            else:
                self._torn = fs.pread(fd, 1, status.st_size - 1) != b"\n"
        except BaseException:
            close_reader(fs, fd)
            raise
        return fd

    def _mend(self) -> None:
        """Cut off a torn line at the end; if that fails, the next write ends it."""
        if not (self._torn and self._ours_alone):
            return
        with suppress(OSError):
            size = self._fs.fstat(self._fd).st_size
            begin = max(size - _LONGEST_LINE, 0)
            end = self._fs.pread(self._fd, size - begin, begin)
            half = end[end.rfind(b"\n") + 1 :]
            if _entry(half) is None and (begin == 0 or len(half) < len(end)):
                self._fs.ftruncate(self._fd, size - len(half))
                self._torn = False

    def _drain(self) -> None:
        """Move the reserve's lines into the log; without room, they stay in the reserve."""
        if self._reserve is None or not self._reserve.lines:
            return
        with suppress(OSError):
            size = self._fs.fstat(self._fd).st_size
            end = self._fs.pread(self._fd, 2 * RESERVE_BYTES, max(size - 2 * RESERVE_BYTES, 0))
            there = set(end.splitlines(keepends=True))  # written by a process that died here
            _, error = self._append([one for one in self._reserve.lines if one not in there])
            if error is None:
                self._fs.fsync(self._fd)
                self._reserve.clear()

    def add(self, event: str, *, at: datetime, **fields: object) -> None:
        """Add a line for the next `write`."""
        if self._stamp[0] is not at:  # the lines of a batch have one time
            text = at.astimezone(UTC).isoformat(timespec="microseconds")
            self._stamp = (at, text.replace("+00:00", "Z"))
        line = {"at": self._stamp[1], "event": event, **fields}
        self._pending.append(f"{_encode(line)[:-1]}{self._tail}\n".encode("ascii"))

    def write(self, *, sync: bool = True) -> None:
        """Write the lines that were added.

        Raises:
            OSError: They could not be written, or their durability could not be confirmed; some may
                be in the log, and pending ones are dropped. Later writes stay readable all the
                same.
        """
        lines, self._pending = self._pending, []
        written, error = self._append(lines)
        if error is None:
            if lines and sync:
                self._fs.fsync(self._fd)
        elif written + self._in_reserve(lines[written:], error) < len(lines):
            raise error

    def announce(self, count: int) -> tuple[int, OSError | None]:
        """Write and sync the lines that were added, as many as the disk has room for.

        On a full disk one announcement is written to the reserve: what it announces makes room for
        more.

        Args:
            count: How many of them, at the end, announce something that is about to happen.

        Returns:
            How many of these are on the disk, from the first on, and the error that stopped the
            rest. The rest is dropped; lines before it that were not written stay pending.
        """
        lines, self._pending = self._pending, []
        before = len(lines) - count
        written, error = self._append(lines)
        if written > before:
            try:
                self._fs.fsync(self._fd)
            except OSError as failed:
                return 0, failed
        elif error is not None and count:
            written += self._in_reserve(lines[written : before + 1], error)
        self._pending += lines[written:before]
        return max(written - before, 0), error

    def _in_reserve(self, lines: Sequence[bytes], error: OSError) -> int:
        """Write lines that the disk has no room for to the reserve; return how many fit."""
        if self._reserve is None or error.errno not in FULL:
            return 0
        return self._reserve.take(lines)

    def _append(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Append lines; return how many are complete, and the error that stopped the rest."""
        before = b"\n" if self._torn else b""  # ends the torn line
        data = memoryview(b"".join([before, *lines]))
        done = 0
        try:
            while done < len(data):
                done += self._fs.writev(self._fd, [data[done:]])
        except OSError as error:
            if done:
                self._torn = data[done - 1] != ord("\n")
                self._mend()
            ends = accumulate(map(len, lines), initial=len(before))
            return sum(end <= done for end in ends) - 1 if done else 0, error
        except BaseException:
            self._torn = True
            raise
        self._torn = self._torn and not data
        return len(lines), None

    def close(self) -> None:
        """Close the log; lines that were added and not written are lost."""
        self._drain()
        if self._reserve is not None:
            self._reserve.close()
        close_reader(self._fs, self._fd)


def make_log(fs: FileSystem, directory_fd: int) -> bool:
    """Create the log of a private directory if it is missing.

    Returns:
        Whether it was created; the caller then syncs the directory.

    Raises:
        OSError: The system refused.
    """
    if is_there(fs, directory_fd, AUDIT_NAME):
        return False
    create_file(fs, directory_fd, AUDIT_NAME, [], handed_over=True)
    return True


def _rotate(fs: FileSystem, directory_fd: int, rotated_at: int) -> None:
    """Rename a large log, so that a new one is started."""
    try:
        status = fs.stat(AUDIT_NAME, dir_fd=directory_fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size < rotated_at:
            return
        names = [AUDIT_NAME, *(f"{AUDIT_NAME}.{number + 1}" for number in range(KEPT_LOGS))]
        for newer, older in reversed(list(pairwise(names))):
            with suppress(FileNotFoundError):
                fs.rename(newer, older, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    except OSError:
        return  # there is no log yet, or it can't be renamed and grows on


def read_audit(path: Path) -> Sequence[Mapping[str, object]]:
    """Read an audit log, its former ones and its reserve, the oldest line first.

    Anything that is no line of a log, such as a torn line, is left out.

    Args:
        path: The file; no lines if it is missing.

    Raises:
        OSError: It can't be read.
    """
    former = (path.with_name(f"{path.name}.{number}") for number in range(KEPT_LOGS, 0, -1))
    lines: dict[bytes, None] = {}  # the reserve and the log may hold the same line
    for one in (*former, path, path.with_name(RESERVE_NAME)):
        with suppress(FileNotFoundError):
            lines.update(dict.fromkeys(one.read_bytes().split(b"\n")))
    read = []
    for line in lines:
        entry = _entry(line)
        if entry is not None:
            read.append(entry)
    return read


def _entry(line: bytes) -> dict[str, object] | None:
    """Parse a line; return None if it is no line of a log."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
