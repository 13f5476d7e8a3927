"""Directories that appear complete or not at all, and survive a power failure."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from .errors import WriteError
from .file_lock import unlock, wait_lock
from .filesystem import DIRECTORY_FLAGS, FileSystem, close_reader
from .safe_path import is_bare
from .tree_removal import remove_directory

_FOLLOWING = DIRECTORY_FLAGS & ~os.O_NOFOLLOW


class NewDirectory:
    """A directory that is built under a hidden name, then renamed to its own.

        with NewDirectory(fs, parent_fd, hidden) as new:
            create_file(fs, new.fd, "session.yaml", [content])
            new.sync()
            new.appear("name")

    Guarantees: under its own name the directory is complete or absent. When `appear` returns, the
    name survives a power failure, and so do the contents, as far as the caller synced them. If the
    block ends without `appear`, the directory is removed; one left by a killed process, or one that
    resists, stays under its hidden name, by which the caller's sweep recognises it.

    The caller checks that the name is free, under a lock of the parent: a rename replaces an empty
    directory. The system's errors are raised unchanged.

    Attributes:
        fd: The directory, open until it appears.
        step: The current step, for messages; the caller may set it for its own steps.
        visible: Whether the directory has its name although `appear` failed: the parent could not
            be synced, and the name could not be taken back.
    """

    def __init__(self, fs: FileSystem, parent_fd: int, hidden: str) -> None:
        """Remember the names; no I/O yet.

        Args:
            fs: The file system.
            parent_fd: The directory that it is built in, open.
            hidden: An unused name in it.
        """
        self._fs = fs
        self._parent_fd = parent_fd
        self._hidden = hidden
        self._locked = False
        self._appeared = False
        self.fd = -1
        self.step = "mkdir"
        self.visible = False

    def __enter__(self) -> Self:
        self._fs.mkdir(self._hidden, 0o700, dir_fd=self._parent_fd)
        self.step = "open the new directory"
        try:
            self.fd = self._fs.open(self._hidden, DIRECTORY_FLAGS, dir_fd=self._parent_fd)
        except BaseException:
            self._remove()
            raise
        self.step = "write"
        return self

    def lock(self) -> None:
        """Lock it until it appears, as a sign that its maker lives."""
        self.step = "lock"
        wait_lock(self._fs, self.fd)
        self._locked = True

    def sync(self) -> None:
        """Sync the directory's entries."""
        self.step = "fsync of the new directory"
        self._fs.fsync(self.fd)

    def appear(self, name: str, *, parent_fd: int | None = None) -> None:
        """Rename it to its own name, durably; if that fails, it is hidden again, or `visible`.

        Args:
            name: The name, which must be unused.
            parent_fd: The directory that it appears in, on the same file system; the one that it
                was built in if None.
        """
        fs, hidden = self._fs, self._hidden
        built_fd = self._parent_fd
        target_fd = built_fd if parent_fd is None else parent_fd
        self._close()
        self.step = "rename"
        fs.rename(hidden, name, src_dir_fd=built_fd, dst_dir_fd=target_fd)
        self._appeared = True
        self.step = "fsync of the directory"
        try:
            fs.fsync(target_fd)
        except OSError:
            self.visible = True
            with suppress(OSError):
                fs.rename(name, hidden, src_dir_fd=target_fd, dst_dir_fd=built_fd)
                self.visible = self._appeared = False
            raise

    def __exit__(self, *_: object) -> None:
        self._close()
        if not self._appeared:
            self._remove()

    def _close(self) -> None:
        if self.fd >= 0:
            if self._locked:
                unlock(self._fs, self.fd)  # a child forked in between has a copy of the descriptor
            fd, self.fd = self.fd, -1
            close_reader(self._fs, fd)

    def _remove(self) -> None:
        with suppress(OSError):
            fd = self._fs.open(self._hidden, DIRECTORY_FLAGS, dir_fd=self._parent_fd)
            try:
                remove_directory(self._fs, self._parent_fd, self._hidden, fd)
            finally:
                close_reader(self._fs, fd)


def sync_directory(fs: FileSystem, path: Path) -> None:
    """Sync the directory at `path`.

    Raises:
        OSError: The system refused.
    """
    fd = fs.open(str(path), _FOLLOWING)
    try:
        fs.fsync(fd)
    finally:
        close_reader(fs, fd)


def make_durable_directory(fs: FileSystem, path: Path) -> bool:
    """Create a directory and its missing parents, each synced into its own parent.

    An existing empty one is synced as well: a killed process may have made it just now.

    Args:
        fs: The file system.
        path: The directory; new ones get mode 0700 less the umask.

    Returns:
        True if it was created, False if it existed.

    Raises:
        WriteError: A component of the path is not a directory, or the system refused.
    """
    operation = "stat"
    made: list[Path] = []
    try:
        missing: list[Path] = []
        there = path
        while not there.is_dir() and there != there.parent:
            missing.append(there)
            there = there.parent
        operation = "fsync of the parent directory"
        if is_bare(str(there)) and os.access(there.parent, os.R_OK):  # else not made here
            sync_directory(fs, there.parent)
        for directory in reversed(missing):
            operation = "mkdir"
            try:
                fs.mkdir(str(directory), 0o700)
            except FileExistsError:
                if not directory.is_dir():
                    raise
                continue
            made.append(directory)
            operation = "fsync of the parent directory"
            sync_directory(fs, directory.parent)
    except OSError as error:
        for directory in reversed(made):  # or the next call would assume them durable
            with suppress(OSError):
                fs.rmdir(str(directory))
        raise WriteError(path=path, operation=operation, cause=error) from error
    return bool(missing)
