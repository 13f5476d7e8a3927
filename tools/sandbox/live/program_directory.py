"""A durable program's directory: its snapshot on disk, and who may go on with it.

A sandbox holds the directory's lock while its program is further than the snapshot there. It gives
the lock up once both are the same; then any sandbox may take the program over. One whose program
was taken over finds another snapshot than it left, and is refused.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...base.files import AtomicFileWriter, FileSystem, OsFileSystem, try_lock, unlock
from ...base.files.directory_store import make_durable_directory
from ...base.files.filesystem import DIRECTORY_FLAGS
from ..errors import ProgramElsewhere
from ..guest_paths import STATE_NAME
from .journal.journal_file import JournalFile
from .snapshot_file import ProgramSnapshot

JOURNAL_NAME: Final = "turn.afjournal"

Stamp = tuple[int, int, int]


class ProgramDirectory:
    """The directory of one sandbox's program.

    Args:
        path: The directory; `hold` creates it with mode 0700 if it is missing.
        fs: The file system; the real one if None.
    """

    def __init__(self, path: Path, fs: FileSystem | None = None) -> None:
        self.path: Final = path
        self._fs: Final = fs or OsFileSystem()
        self._fd = -1
        self._digest = ""
        self._left: Stamp | None = None
        self._is_known = False

    def hold(self) -> None:
        """Take the lock, unless it is held already.

        Raises:
            ProgramElsewhere: Another sandbox holds it, or has continued the program.
            WriteError: The directory cannot be created.
            OSError: It cannot be opened or locked.
        """
        if self._fd >= 0:
            return
        make_durable_directory(self._fs, self.path)
        self._fd = fd = self._fs.open(str(self.path), DIRECTORY_FLAGS)
        taken = None
        if not try_lock(self._fs, fd):
            taken = "is in use by another sandbox"
        elif self._is_known and self._stamp() != self._left:
            taken = "was continued by another sandbox"
        if taken is not None:
            self.leave()
            raise ProgramElsewhere(self.path, taken)

    def leave(self) -> None:
        """Give up the lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            unlock(self._fs, fd)
            self._fs.close(fd)

    def read(self) -> ProgramSnapshot | None:
        """Return the program's snapshot, or None without one; the lock is held.

        Raises:
            ProgramSnapshotRefused: It is not a snapshot.
            ReadError: It cannot be read.
        """
        found = self.peek()
        self._digest = "" if found is None else found.digest
        self._left, self._is_known = self._stamp(), True
        return found

    def peek(self) -> ProgramSnapshot | None:
        """Return the program's snapshot as it is now, or None; raise as `read`."""
        return ProgramSnapshot.load(self.path / STATE_NAME, fs=self._fs)

    def write(self, snapshot: ProgramSnapshot) -> None:
        """Replace the program's snapshot, durably; the lock is held.

        Raises:
            WriteError: The old one is untouched.
        """
        path = self.path / STATE_NAME
        with AtomicFileWriter(path, fs=self._fs, directory_fd=self._fd, leftover_age_s=0) as file:
            file.write(bytes(snapshot))
        self._digest = snapshot.digest
        self._left, self._is_known = self._stamp(), True

    def move_aside(self, name: str) -> None:
        """Give the program's snapshot another name, durably; the lock is held."""
        fd = self._fd
        self._fs.rename(STATE_NAME, name, src_dir_fd=fd, dst_dir_fd=fd)
        self._fs.fsync(fd)

    def has_journal(self) -> bool:
        """Return whether there is the journal of a turn."""
        return os.path.lexists(self.path / JOURNAL_NAME)

    def create_journal(self) -> JournalFile:
        """Create the journal of a turn that starts from the snapshot; the lock is held.

        Raises:
            TurnJournalNotWritten: The file cannot be written.
        """
        return JournalFile.create(self.path / JOURNAL_NAME, self._start())

    def open_journal(self) -> JournalFile | None:
        """Open the journal of the turn that a killed process was in; the lock is held.

        Raises:
            TurnJournalDamaged: It is damaged, or of a turn that started from another snapshot.
            TurnJournalNotWritten: The file cannot be read.
        """
        return JournalFile.open(self.path / JOURNAL_NAME, self._start())

    def remove_journal(self) -> None:
        """Remove the journal of a turn that is over; the lock is held."""
        with suppress(FileNotFoundError):
            os.unlink(self.path / JOURNAL_NAME)

    def _start(self) -> bytes:
        return bytes.fromhex(self._digest)

    def _stamp(self) -> Stamp | None:
        try:
            seen = self._fs.stat(STATE_NAME, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size
