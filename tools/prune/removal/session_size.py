"""The size of a session: the sum of its files, and their owners."""

from __future__ import annotations

import os
import stat
from stat import ST_DEV, ST_INO, ST_MODE, ST_NLINK, ST_SIZE, ST_UID  # faster than by attribute
from typing import Final

from ...base.files import FileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ..ports import Record

_KIND: Final = 0o170000  # inode(7): S_IFMT
_DIRECTORY: Final = stat.S_IFDIR
LEVELS: Final = 400
"""The most directories of one tree that are open at a time."""
_FEW: Final = 16


class SessionSize:
    """The content of a directory; links count as links, mounted trees are not entered.

    The object also holds the sums during the walk, to save a second one: ten thousand sessions make
    ten thousand of these.

    Args:
        fs: The file system.
        fd: The directory, open.
        status: Its `fstat` result.
        record: A file in it that was inspected already, or None.

    Attributes:
        size_bytes: Sizes of all files, each counted once however many names it has.
        blocks: The room they take, in units of 512 bytes (inode(7): st_blocks).
        files: The number of files and directories.
        foreign: A file whose owner is not the directory's, or None.
        mounted: A directory on another file system, or None.
        unseen: Something that could not be inspected, so that its owner is unknown, or None.
        names: Its entries, if they are few files and no directory; else None.
    """

    __slots__ = (
        "_device",
        "_fs",
        "_linked",
        "_owner",
        "_record",
        "blocks",
        "files",
        "foreign",
        "mounted",
        "names",
        "size_bytes",
        "unseen",
    )

    def __init__(
        self, fs: FileSystem, fd: int, status: os.stat_result, record: Record | None = None
    ) -> None:
        self._fs = fs
        self._record = record
        self._device = status.st_dev
        self._owner = status.st_uid
        self._linked: set[int] | None = None
        self.size_bytes = self.blocks = self.files = 0
        self.foreign: str | None = None
        self.mounted: str | None = None
        self.unseen: str | None = None
        self.names: list[str] | None = None
        below = self._look(fd)
        if below:
            self.names = None
            self._visit(fd, below)

    def _visit(self, fd: int, below: list[str]) -> None:
        """Walk the directories below one, however deep, with at most `LEVELS` descriptors.

        In a deeper tree, those nearest to the top are closed, and opened again, by "..", on the way
        back. Where that leads to another directory, they are being moved.
        """
        fs = self._fs
        stack: list[tuple[int, list[str]]] = [(fd, below)]
        closed: list[tuple[int, int]] = []  # the closed directories: stack[1:1 + len(closed)]
        try:
            while stack:
                parent, below = stack[-1]
                if below:
                    child = self._enter(parent, below.pop())
                    if child < 0:
                        continue
                    stack.append((child, self._look(child)))
                    if len(stack) - len(closed) > LEVELS:
                        upper, names = stack[len(closed) + 1]
                        status = fs.fstat(upper)
                        stack[len(closed) + 1] = (-1, names)
                        closed.append((status.st_dev, status.st_ino))
                        close_reader(fs, upper)
                    continue
                if closed and len(stack) == len(closed) + 2:
                    again = self._back(parent, closed.pop())
                    if again < 0:
                        del stack[1:-1]
                        closed.clear()
                    else:
                        stack[-2] = (again, stack[-2][1])
                stack.pop()
                if parent != fd:
                    close_reader(fs, parent)
        finally:
            for open_fd, _ in stack[1:]:
                if open_fd >= 0:
                    close_reader(fs, open_fd)

    def _counted(self, inode: int) -> bool:
        """Return whether a file of several names was counted before."""
        if self._linked is None:
            self._linked = {inode}
            return False
        before = inode in self._linked
        self._linked.add(inode)
        return before

    def _enter(self, parent: int, name: str) -> int:
        """Open a directory; return -1 if it is missing or can't be opened."""
        try:
            return self._fs.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except FileNotFoundError:
            return -1
        except OSError:
            self.unseen = name
            return -1

    def _back(self, fd: int, which: tuple[int, int]) -> int:
        """Open the directory above one; return -1 unless it is the one that was there."""
        above = self._enter(fd, "..")
        if above >= 0:
            status = self._fs.fstat(above)
            if (status.st_dev, status.st_ino) == which:
                return above
            close_reader(self._fs, above)
        self.unseen = ".."
        return -1

    def _look(self, fd: int) -> list[str]:
        """Count the entries of one directory; return the names of its directories."""
        below: list[str] = []
        try:
            names = self._fs.listdir(fd)
        except OSError:
            self.unseen = "."
            return below
        stat_of, owner = self._fs.stat, self._owner
        record, self._record = self._record, None  # only the top directory has it
        known = None if record is None else record.name
        size = blocks = 0
        for name in names:
            try:
                if name == known and record is not None:
                    status = record.status
                else:
                    status = stat_of(name, dir_fd=fd)
            except FileNotFoundError:
                continue
            except OSError:
                self.unseen = name
                continue
            if status[ST_UID] != owner:
                self.foreign = name
            if status[ST_MODE] & _KIND == _DIRECTORY:
                if status[ST_DEV] != self._device:
                    self.mounted = name
                    continue
                below.append(name)
            elif status[ST_NLINK] > 1 and self._counted(status[ST_INO]):
                continue
            else:
                size += status[ST_SIZE]
            blocks += status.st_blocks
        if not self.files and len(names) <= _FEW:
            self.names = names
        self.files += len(names)
        self.size_bytes += size
        self.blocks += blocks
        return below
