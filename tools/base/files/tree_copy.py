"""A temporary copy of a folder's files: by descriptors, following no link, bounded; not durable."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define, frozen

from .filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, FileSystem, close_reader
from .tree_walk import Entry, walk_tree

_PIECE: Final = 1 << 20
_NO_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


@frozen(kw_only=True)
class CopyLimits:
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


@define
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
