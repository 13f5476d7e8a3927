"""A turn's journal as a file: a log whose first entry says what the turn starts from.

The frames are those of `log_frames`; an append is one frame and one write. What a process was
writing when it was killed is cut off when the file is next opened; damage before that is refused.

A killed process loses nothing that was appended. A power cut may: frames since the last `sync`, and
the guest's own writes that the kernel had not stored. `is_of_this_boot` says whether that may be;
then the caller goes on from the state before the turn.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ....base.errors import reason_of
from ....base.files.log_frames import LogMark, Rest, encode_frame, scan_log
from ..errors import TurnJournalDamaged, TurnJournalNotWritten
from .note_log import MOST_NOTED

_FORM: Final = b"AFJRNL01"
_PLAIN, _PACKED = b"\0", b"\1"
_PACKED_FROM: Final = 256
_MOST_BYTES: Final = 2 * MOST_NOTED
_SAFELY: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class JournalFile:
    """An open journal; notes are appended as they come.

    Attributes:
        entries: The notes that it had when it was opened.
        is_of_this_boot: Whether the machine has been up since it was created.
    """

    def __init__(self, fd: int, path: Path, mark: LogMark, entries: bytes, boot: bytes) -> None:
        self.entries: Final = entries
        self.is_of_this_boot: Final = boot == _boot()
        self._fd = fd
        self._path = path
        self._mark = mark

    @classmethod
    def create(cls, path: Path, start: bytes) -> Self:
        """Create the journal of a turn, for its owner only; an earlier turn's is removed.

        Args:
            path: Its path.
            start: A digest of what the turn starts from: its state, its code, its input.

        Raises:
            TurnJournalNotWritten: The file cannot be written.
        """
        try:
            with suppress(FileNotFoundError):
                path.unlink()
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
        except OSError as error:
            raise TurnJournalNotWritten(path=path, reason=reason_of(error)) from error
        made = cls(fd, path, LogMark(), b"", boot := _boot())
        made._append(_FORM + len(start).to_bytes(1, "little") + start + boot)
        return made

    @classmethod
    def open(cls, path: Path, start: bytes) -> Self | None:
        """Open the journal of a turn that did not end; None if there is none.

        Args:
            path: Its path.
            start: As for `create`.

        Raises:
            TurnJournalDamaged: It is of another turn or form, or damaged before its end.
            TurnJournalNotWritten: The file cannot be read or cut.
        """
        try:
            fd = os.open(path, os.O_RDWR | _SAFELY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TurnJournalNotWritten(path=path, reason=reason_of(error)) from error
        try:
            found = cls._read(fd, path, start)
        except OSError as error:
            os.close(fd)
            raise TurnJournalNotWritten(path=path, reason=reason_of(error)) from error
        except BaseException:
            os.close(fd)
            raise
        if found is None:
            os.close(fd)
        return found

    @classmethod
    def _read(cls, fd: int, path: Path, start: bytes) -> Self | None:
        size = os.fstat(fd).st_size
        if size > _MOST_BYTES:
            raise TurnJournalDamaged(reason=f"it has {size} bytes, more than {_MOST_BYTES}")
        scan = scan_log(lambda at, length: os.pread(fd, length, at), size, LogMark())
        if scan.rest is Rest.DAMAGED:
            raise TurnJournalDamaged(reason=f"what follows byte {scan.mark.end} is damaged")
        if not scan.entries:
            return None  # killed before its head was written
        head, *notes = (entry.head for entry in scan.entries)
        of = _FORM + len(start).to_bytes(1, "little") + start
        if not head.startswith(_FORM):
            raise TurnJournalDamaged(reason=f"this release reads the form {_FORM.decode()} only")
        if not head.startswith(of):
            raise TurnJournalDamaged(reason="its turn starts from another state or code")
        entries = bytearray()
        for each in notes:
            entries += _unpacked(each, MOST_NOTED + 1 - len(entries))
        os.ftruncate(fd, scan.mark.end)
        os.lseek(fd, scan.mark.end, os.SEEK_SET)
        return cls(fd, path, scan.mark, bytes(entries), head[len(of) :])

    def append(self, data: bytes) -> None:
        """Append notes; once it returns, a killed process does not lose them.

        Raises:
            TurnJournalNotWritten: The file cannot be written.
        """
        packed = zlib.compress(data, 1) if len(data) > _PACKED_FROM else data
        self._append(_PACKED + packed if len(packed) < len(data) else _PLAIN + data)

    def sync(self) -> None:
        """Store what was appended, so that a power cut does not lose it.

        Raises:
            TurnJournalNotWritten: The disk refuses.
        """
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise TurnJournalNotWritten(path=self._path, reason=reason_of(error)) from error

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._fd)

    def _append(self, entry: bytes) -> None:
        pieces, mark = encode_frame([(entry, b"")], self._mark)
        data = b"".join(pieces)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise TurnJournalNotWritten(path=self._path, reason=reason_of(error)) from error
        self._mark = mark


def _boot() -> bytes:
    with suppress(OSError):
        return _BOOT.read_bytes().strip()
    return b""


def _unpacked(entry: bytes, most: int) -> bytes:
    data = entry[1:]
    if entry[:1] == _PACKED:
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(data, most)
        except zlib.error as error:
            raise TurnJournalDamaged(reason="a frame cannot be unpacked") from error
        if not unpacker.eof:
            raise TurnJournalDamaged(reason="a frame is cut, or its notes are too long")
    if len(data) >= most:
        raise TurnJournalDamaged(reason="its notes are too long")
    return data
