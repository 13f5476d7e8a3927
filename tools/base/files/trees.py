"""Walk and copy trees of files by descriptors, following no link; what changed in a tree."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import stat_result
from typing import Final, NamedTuple

from .filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, FileSystem, close_reader


class Entry(NamedTuple):
    """An entry that a walk reached.

    Attributes:
        names: Its path from the top, by components.
        directory_fd: The directory that it is in, open until the walk continues.
        status: Its status; links are not followed.
    """

    names: tuple[str, ...]
    directory_fd: int
    status: stat_result

    @property
    def name(self) -> str:
        """Its name in its directory."""
        return self.names[-1]

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.status.st_mode)


def _always(_: Entry) -> bool:
    return True


def _raise(error: OSError) -> None:
    raise error


def walk_tree(
    fs: FileSystem,
    root_fd: int,
    *,
    enter: Callable[[Entry], bool] = _always,
    onerror: Callable[[OSError], None] = _raise,
) -> Iterator[Entry]:
    """Walk a tree, depth first and sorted by name; a directory comes before what it holds.

    One descriptor is open for each level: the caller bounds the depth, by `enter` or by ending the
    walk. The descriptors are closed when the walk ends or is closed.

    Args:
        fs: The file system.
        root_fd: The top, open; it stays open, and is not yielded itself.
        enter: Whether to enter a directory; called after it was yielded.
        onerror: Receives the error where an entry can't be examined, was moved or no longer exists;
            if it returns, the walk continues after that entry.

    Raises:
        OSError: The top can't be listed, or `onerror` raised it.
    """
    stack: list[tuple[int, tuple[str, ...], list[str]]] = [(root_fd, (), _names(fs, root_fd))]
    try:
        while stack:
            fd, above, names = stack[-1]
            if not names:
                stack.pop()
                if stack:
                    close_reader(fs, fd)
                continue
            name = names.pop()
            try:
                entry = Entry((*above, name), fd, fs.stat(name, dir_fd=fd))
            except OSError as error:
                onerror(error)
                continue
            yield entry
            if entry.is_directory and enter(entry):
                try:
                    below = fs.open(name, DIRECTORY_FLAGS, dir_fd=fd)
                    stack.append((below, entry.names, []))  # always closed in the end
                    stack[-1][2].extend(_names(fs, below))
                except OSError as error:
                    onerror(error)
    finally:
        for fd, _, _ in stack[1:]:
            close_reader(fs, fd)


def _names(fs: FileSystem, fd: int) -> list[str]:
    return sorted(fs.listdir(fd), reverse=True)


_PIECE: Final = 1 << 20
_NO_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class CopyLimits(NamedTuple):
    """Limits of a copy.

    Attributes:
        max_entries: The number of files, links and directories.
        max_bytes: The size of all files together, in bytes.
        max_depth: The nesting of directories; a descriptor is open for each level.
    """

    max_entries: int = 400_000
    max_bytes: int = 8 << 30
    max_depth: int = 100


class TreeTooLarge(Exception):
    """A folder exceeds the limits of a copy; the part copied so far is left.

    Attributes:
        problem: The limit that was exceeded, as the end of a sentence.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def _nothing(_: Entry) -> bool:
    return False


def copy_tree(
    fs: FileSystem,
    source_fd: int,
    target_fd: int,
    *,
    left_out: Callable[[Entry], bool] = _nothing,
    limits: CopyLimits | None = None,
) -> None:
    """Copy files with their permissions, links as links, and directories into an empty directory.

    Set-user-ID and similar bits are not copied, the owner can read and enter all, and pipes,
    sockets and devices are skipped. Neither directory should change during the copy.

    Args:
        fs: The file system.
        source_fd: The folder, open.
        target_fd: The target directory, open and empty.
        left_out: Whether to skip an entry with all that is in it.
        limits: The limits.

    Raises:
        TreeTooLarge: The folder exceeds them.
        OSError: The system refused.
    """
    limits = limits if limits is not None else CopyLimits()
    with _Levels.opened(fs, target_fd) as levels:
        entries, size = 0, 0
        for entry in walk_tree(fs, source_fd, enter=lambda one: not left_out(one)):
            entries += 1
            if left_out(entry):
                continue
            size += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
            _require(entries <= limits.max_entries, f"more than {limits.max_entries:,} files")
            _require(size <= limits.max_bytes, f"files of more than {limits.max_bytes:,} bytes")
            deep = len(entry.names) > limits.max_depth
            _require(not deep, f"folders that are nested deeper than {limits.max_depth}")
            _copy(fs, entry, levels.of(entry.names[:-1]))


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise TreeTooLarge(f"holds {problem}")


@dataclass(slots=True, eq=False, repr=False)
class _Levels:
    """The open directories of the target, down to the one that is being filled."""

    fs: FileSystem
    fds: list[int]
    names: tuple[str, ...] = ()

    @classmethod
    @contextmanager
    def opened(cls, fs: FileSystem, root_fd: int) -> Iterator[_Levels]:
        levels = cls(fs, [root_fd])
        try:
            yield levels
        finally:
            levels.close_to(1)

    def of(self, names: tuple[str, ...]) -> int:
        """Return the directory of a path, which must exist already."""
        common = 0
        for one, other in zip(self.names, names, strict=False):
            if one != other:
                break
            common += 1
        self.close_to(common + 1)
        for name in names[common:]:
            self.fds.append(self.fs.open(name, DIRECTORY_FLAGS, dir_fd=self.fds[-1]))
        self.names = names
        return self.fds[-1]

    def close_to(self, many: int) -> None:
        while len(self.fds) > many:
            close_reader(self.fs, self.fds.pop())


def _copy(fs: FileSystem, entry: Entry, target_fd: int) -> None:
    mode = stat.S_IMODE(entry.status.st_mode) & 0o777
    if entry.is_directory:
        fs.mkdir(entry.name, mode | 0o700, dir_fd=target_fd)
    elif stat.S_ISLNK(entry.status.st_mode):
        os.symlink(os.readlink(entry.name, dir_fd=entry.directory_fd), entry.name, dir_fd=target_fd)
    elif stat.S_ISREG(entry.status.st_mode):
        source = fs.open(entry.name, READ_FLAGS, dir_fd=entry.directory_fd)
        try:
            target = fs.open(entry.name, CREATE_FLAGS, 0o600, dir_fd=target_fd)
            try:
                _copy_content(source, target)
                os.fchmod(target, mode | 0o400)
            finally:
                fs.close(target)
        finally:
            close_reader(fs, source)


def _copy_content(source: int, target: int) -> None:
    if hasattr(os, "copy_file_range"):
        try:
            while os.copy_file_range(source, target, _PIECE):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY:
                raise
        else:
            return
    while piece := os.read(source, _PIECE):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]


class FileChange(NamedTuple):
    """The change of one file.

    Attributes:
        path: Its path; bytes that are not UTF-8 are surrogates in it.
        kind: "added", "deleted", "modified" or "type changed".
        old_mode: Its git mode before, as "100644"; "000000" if it did not exist.
        new_mode: The same after.
        insertions: How many lines it gained; None for a binary file.
        deletions: How many it lost; None for a binary file.
    """

    path: str
    kind: str
    old_mode: str
    new_mode: str
    insertions: int | None
    deletions: int | None


class TreeChanges(NamedTuple):
    """The differences between two states of a tree.

    Attributes:
        files: The files that differ, by path.
        patch: The lines that differ, as git writes them; empty if not requested.
    """

    files: tuple[FileChange, ...]
    patch: bytes = b""

    @property
    def insertions(self) -> int:
        """The number of lines gained."""
        return sum(one.insertions or 0 for one in self.files)

    @property
    def deletions(self) -> int:
        """The number of lines lost."""
        return sum(one.deletions or 0 for one in self.files)
