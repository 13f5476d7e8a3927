"""An append-only file: an append is there in full once acknowledged, or not at all.

The frames are those of `log_frames`. Writers take turns under a lock of the caller's; readers need
none. A killed writer may leave an unfinished, unacknowledged append at the end; the next append
cuts it off. Damage anywhere else is an error, and the file is left unchanged.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from ..stream_entry import StreamEntry
from .errors import ReadError, WriteError
from .filesystem import FileSystem
from .log_frames import (
    LogMark,
    LogTail,
    Rest,
    encode_frame,
    last_frames,
    scan_log,
    stands,
)
from .regular_file import write_all

APPEND_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""The flags that open a log for appending."""

_WINDOW_BYTES: Final = 1 << 16


class LogPart(NamedTuple):
    """The contents of a log from a mark on.

    Attributes:
        entries: The entries.
        mark: Their end.
        anew: Whether these are all entries, since the given mark is no longer valid.
    """

    entries: list[StreamEntry]
    mark: LogMark
    anew: bool


class AppendLog:
    """An open log.

    Args:
        fs: The file system.
        fd: The open file; the caller closes it.
        path: Its path, for messages.

    Raises:
        ReadError: It is not a regular file.
    """

    def __init__(self, fs: FileSystem, fd: int, path: Path) -> None:
        self._fs = fs
        self._fd = fd
        self._path = path
        self._window = b""
        self._window_at = 0
        try:
            self._status = fs.fstat(fd)
        except OSError as error:
            raise ReadError(path=path, cause=error) from error
        if not stat.S_ISREG(self._status.st_mode):
            raise ReadError(path=path, reason="it is not a regular file")

    @property
    def is_empty(self) -> bool:
        """Whether it was empty when it was opened."""
        return self._status.st_size == 0

    def read(self, since: LogMark | None = None) -> LogPart:
        """Return the entries from a mark on; all of them if the mark is no longer valid, or None.

        Raises:
            ReadError: It is damaged, or the system refused.
        """
        part, rest = self._part(since)
        if rest is Rest.DAMAGED:
            raise self._damaged(part.mark.end)
        return part

    def read_last(self, count: int) -> LogTail:
        """Return at least `count` last entries, or all if there are fewer; reads from the end.

        Damage before the returned entries may go unnoticed.

        Raises:
            ReadError: The part that was read is damaged, or the system refused.
        """
        try:
            tail = last_frames(self._back_at, self._status.st_size, count)
        except OSError as error:
            raise ReadError(path=self._path, cause=error) from error
        if tail is not None:
            return tail
        part = self.read()  # the last append is unfinished, or was when the size was read
        return LogTail(part.entries, part.mark, whole=True)

    def bodies(self, entries: Iterable[StreamEntry], mark: LogMark) -> list[bytes] | None:
        """Return the bodies of entries, in the given order; None if the mark is no longer valid.

        Args:
            entries: Entries that were read.
            mark: The mark that was read with the last of them, or a later one.

        Raises:
            ReadError: One is damaged, or the system refused.
        """
        try:
            if mark.end > self._status.st_size or not stands(self._at, mark):
                return None
            found = [(self._at(entry.position, entry.size), entry) for entry in entries]
        except OSError as error:
            raise ReadError(path=self._path, cause=error) from error
        for body, entry in found:
            if crc32(body) != entry.check:
                raise self._damaged(entry.position)
        return [body for body, _ in found]

    def append(
        self, entries: Sequence[tuple[bytes, bytes]], *, since: LogMark | None = None
    ) -> tuple[LogMark, int]:
        """Append entries (head, body), all or none, durably; the caller holds the writers' lock.

        Args:
            entries: One or more.
            since: A mark that was read before, to scan from there; None scans the whole file.

        Returns:
            The mark after them, and how many bytes of an unfinished append were cut off.

        Raises:
            ReadError: The log is damaged; nothing was written.
            WriteError: The disk refused; the log is unchanged (unless the error says `visible`).
        """
        part, rest = self._part(since)
        if rest is Rest.DAMAGED:
            raise self._damaged(part.mark.end)
        before = part.mark.end
        frame, mark = encode_frame(entries, part.mark)
        operation = "cut off what a killed writer left"
        torn = self._status.st_size - before
        try:
            if torn:
                self._fs.ftruncate(self._fd, before)
            operation = "write"
            write_all(self._fs, self._fd, frame)
            operation = "fsync"
            self._fs.fsync(self._fd)
        except OSError as error:
            visible = operation != "cut off what a killed writer left" and not self._taken_back(
                before
            )
            raise WriteError(
                path=self._path, operation=operation, cause=error, visible=visible
            ) from error
        return mark, torn

    def _taken_back(self, end: int) -> bool:
        """Undo a failed append; return whether it is invisible to readers."""
        try:
            self._fs.ftruncate(self._fd, end)
        except OSError:
            return False
        with suppress(OSError):
            self._fs.fsync(self._fd)
        return True

    def _part(self, since: LogMark | None) -> tuple[LogPart, Rest]:
        size = self._status.st_size
        try:
            if since is not None and since.end <= size and stands(self._at, since):
                scan = scan_log(self._at, size, since)
                if scan.rest is not Rest.DAMAGED:
                    return LogPart(scan.entries, scan.mark, anew=False), scan.rest
            scan = scan_log(self._at, size, LogMark())
        except OSError as error:
            raise ReadError(path=self._path, cause=error) from error
        return LogPart(scan.entries, scan.mark, anew=True), scan.rest

    def _at(self, offset: int, length: int) -> bytes:
        """Read from an offset; adjacent reads share one system call."""
        start = offset - self._window_at
        if start < 0 or start + length > len(self._window):
            if length > _WINDOW_BYTES:
                return self._all_at(offset, length)
            self._window = self._fs.pread(self._fd, _WINDOW_BYTES, offset)
            self._window_at, start = offset, 0
        return self._window[start : start + length]

    def _back_at(self, offset: int, length: int) -> bytes:
        """Read as `_at` does, for callers that read backwards."""
        start = offset - self._window_at
        if length <= _WINDOW_BYTES and (start < 0 or start + length > len(self._window)):
            self._window_at = max(0, offset + length - _WINDOW_BYTES)
            self._window = self._all_at(self._window_at, offset + length - self._window_at)
        return self._at(offset, length)

    def _all_at(self, offset: int, length: int) -> bytes:
        pieces = []
        while length > 0:
            piece = self._fs.pread(self._fd, length, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _damaged(self, offset: int) -> ReadError:
        return ReadError(
            path=self._path,
            reason=f"what stands at byte {offset:,} is damaged, and the file was left as it is",
        )
