"""Walk all that a directory holds, by descriptors, following no link and never leaving it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from os import stat_result

from attrs import frozen

from .filesystem import DIRECTORY_FLAGS, FileSystem, close_reader


@frozen
class Entry:
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
