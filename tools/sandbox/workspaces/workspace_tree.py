"""A scan of everything in a workspace, however deep, large or hostile it is.

The walk uses two descriptors at any depth and follows no link. `durable`'s `walk_tree`, which uses
one per level, would let a guest exhaust the host's descriptors.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...base.files.filesystem import DIRECTORY_FLAGS

MAX_ENTRIES: Final = 100_000
"""The most files and directories one scan stores; past it a comparison is incomplete."""

MAX_PATH_BYTES: Final = 4096
"""The longest workspace-relative path stored: a longer one cannot be opened by name."""

MAX_LISTED_BYTES: Final = 64 << 20
"""The most bytes of paths one scan stores, so a hostile tree costs bounded memory."""

Stamp = tuple[int, int, int, int]
"""What identifies one state of a file: inode, size, mtime_ns, ctime_ns."""


class TreeSnapshot(NamedTuple):
    """One scan of a workspace.

    Attributes:
        files: The stamp of everything but directories, by workspace-relative path.
        special: Those that are not regular files: links, pipes, sockets, devices.
        entries: How many files and directories were visited.
        depth: How many directories are above the deepest entry visited.
        complete: False when the tree was too large or changed under the walk.
    """

    files: dict[bytes, Stamp]
    special: frozenset[bytes]
    entries: int
    depth: int
    complete: bool


def take_snapshot(
    root: int,
    *,
    max_entries: int = MAX_ENTRIES,
    max_path_bytes: int = MAX_PATH_BYTES,
    max_listed_bytes: int = MAX_LISTED_BYTES,
    tick: Callable[[], object] | None = None,
) -> TreeSnapshot:
    """Scan an entire workspace.

    The walk uses two descriptors at any depth: it descends by name and returns through `..`,
    checking that it arrives where it left.

    Args:
        root: A descriptor of the workspace directory; it stays open.
        max_entries: The most entries visited.
        max_path_bytes: The longest path stored, in bytes.
        max_listed_bytes: The most bytes of all stored paths.
        tick: Called before each entry; an exception from it ends the walk.
    """
    files: dict[bytes, Stamp] = {}
    special: set[bytes] = set()

    def note(path: bytes, seen: os.stat_result) -> None:
        if not stat.S_ISREG(seen.st_mode):
            special.add(path)
        files[path] = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)

    walk = _TreeWalk(note, max_entries, tick, max_path_bytes, max_listed_bytes)
    walk.run(root)
    return TreeSnapshot(
        files=files,
        special=frozenset(special),
        entries=walk.entries,
        depth=walk.depth,
        complete=walk.complete,
    )


def list_files(seen: TreeSnapshot) -> list[str]:
    """Return the regular files of a scan whose names a guest can see."""
    found = []
    for path in seen.files:
        if path not in seen.special:
            with contextlib.suppress(UnicodeDecodeError):
                found.append(path.decode("utf-8"))
    return found


def measure_tree(
    directory: int, *, max_entries: int, tick: Callable[[], object] | None = None
) -> tuple[int, int]:
    """Return the bytes of all regular files below a directory, and the number of entries.

    Args:
        directory: A descriptor of it; it stays open.
        max_entries: Where counting stops; the number of entries returned is then one more.
        tick: Called before each entry; an exception from it ends the walk.
    """
    total = 0

    def note(_path: bytes, seen: os.stat_result) -> None:
        nonlocal total
        if stat.S_ISREG(seen.st_mode):
            total += seen.st_size

    walk = _TreeWalk(note, max_entries, tick)
    walk.run(directory)
    return total, walk.entries


def count_names(
    directory: int,
    *,
    max_entries: int = MAX_ENTRIES,
    tick: Callable[[], object] | None = None,
) -> dict[tuple[int, int], int]:
    """Return how many names below a directory each file with several names anywhere has.

    Args:
        directory: A descriptor of it; it stays open.
        max_entries: The most entries visited; the rest is not counted.
        tick: Called before each entry; an exception from it ends the walk.

    Returns:
        The names by device and inode.
    """
    names: dict[tuple[int, int], int] = {}

    def note(_path: bytes, seen: os.stat_result) -> None:
        if stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
            key = seen.st_dev, seen.st_ino
            names[key] = names.get(key, 0) + 1

    _TreeWalk(note, max_entries, tick).run(directory)
    return names


class _TreeWalk:
    """One depth-first walk of a tree, with limits on its cost.

    Args:
        note: Called with the path and status of everything but directories.
        max_entries: The most entries visited.
        tick: Called before each entry; an exception from it ends the walk.
        max_path_bytes: The longest path visited, in bytes.
        max_listed_bytes: The most bytes of all paths; None if none is stored.
    """

    def __init__(
        self,
        note: Callable[[bytes, os.stat_result], None],
        max_entries: int,
        tick: Callable[[], object] | None,
        max_path_bytes: int = MAX_PATH_BYTES,
        max_listed_bytes: int | None = None,
    ) -> None:
        self.entries = 0
        self.depth = 0
        self.complete = True
        self._note = note
        self._tick = tick
        self._entries_left = max_entries
        self._bytes_left = max_listed_bytes
        self._max_path_bytes = max_path_bytes
        self._here = -1
        # One frame per directory on the way down: its path with a trailing slash, its identity,
        # and its names still to be visited.
        self._frames: list[tuple[bytes, tuple[int, int], Iterator[bytes]]] = []

    def run(self, root: int) -> None:
        """Visit everything below a directory."""
        self._here = os.open(".", DIRECTORY_FLAGS, dir_fd=root)
        try:
            self._list(b"")
            while self._frames:
                prefix, _, names = self._frames[-1]
                name = next(names, None)
                if name is None:
                    self._frames.pop()
                    if self._frames and not self._climb():
                        break
                elif not self._afford(prefix + name):
                    break
                elif len(prefix) + len(name) <= self._max_path_bytes:
                    self._visit(prefix + name, name)
        finally:
            os.close(self._here)

    def _afford(self, path: bytes) -> bool:
        """Charge one entry; skip a path that is too long, end the walk on a spent budget."""
        if self._tick is not None:
            self._tick()
        self.entries += 1
        self.depth = max(self.depth, len(self._frames))
        self._entries_left -= 1
        if self._bytes_left is not None:
            self._bytes_left -= len(path)
        if self._entries_left < 0 or (self._bytes_left or 0) < 0:
            self.complete = False
            return False
        if len(path) > self._max_path_bytes:
            self.complete = False
        return True

    def _visit(self, path: bytes, name: bytes) -> None:
        try:
            seen = os.stat(name, dir_fd=self._here, follow_symlinks=False)
            if not stat.S_ISDIR(seen.st_mode):
                self._note(path, seen)
                return
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=self._here)
        except OSError:
            self.complete = False  # it vanished, or cannot be entered
            return
        os.close(self._here)
        self._here = below
        self._list(path + b"/")

    def _list(self, prefix: bytes) -> None:
        names: list[bytes] = []
        try:
            names = [os.fsencode(name) for name in os.listdir(self._here)]
        except OSError:
            self.complete = False
        self._frames.append((prefix, _identity(self._here), iter(names)))

    def _climb(self) -> bool:
        """Go up one directory; return False if that is not where the walk came from."""
        try:
            above = os.open("..", DIRECTORY_FLAGS, dir_fd=self._here)
        except OSError:
            self.complete = False
            return False
        os.close(self._here)
        self._here = above
        if _identity(above) == self._frames[-1][1]:
            return True
        self.complete = False  # something moved during the walk
        return False


def _identity(directory: int) -> tuple[int, int]:
    seen = os.fstat(directory)
    return seen.st_dev, seen.st_ino
