"""The guest's `/`: the mounted directories and their parents; nothing else."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from ...guest_paths import MAX_DEPTH
from .files import (
    Directory,
    DirectoryEntry,
    FileStatus,
    Node,
    NodeKind,
    Opening,
    Times,
    WithoutContent,
    refusal,
)

_STATUS = FileStatus(0, 1, NodeKind.DIRECTORY, 2, 0, 0, 0, 0)


class MountPoints(WithoutContent):
    """A read-only directory with others mounted in it at any depth.

    It implements lookups only; for changes, use the directory that `reached` returns.

    Args:
        mounted: The directories, by path from here.
        path: Its own path, from `/`.
    """

    kind = NodeKind.DIRECTORY

    def __init__(self, mounted: Mapping[bytes, Directory], path: bytes = b"") -> None:
        self._mounted = mounted
        self.path: Final = path

    def status(self) -> FileStatus:
        """Return its status."""
        return _STATUS

    def set_times(self, times: Times) -> None:
        """Refused."""
        del times
        raise refusal(errno.EROFS)

    def close(self) -> None:
        """Do nothing."""

    def open(self, path: bytes, opening: Opening) -> Node:
        """Open a mounted directory, or something in it."""
        where, rest = self._resolve(path)
        if where is not None:
            return where.open(rest, opening)
        if opening.create and opening.exclusive:
            raise refusal(errno.EEXIST)
        if opening.write or opening.truncate or opening.create:
            raise refusal(errno.EISDIR)
        return self._below(rest)

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """Return the status of a path."""
        where, rest = self._resolve(path)
        return _STATUS if where is None else where.status_of(rest, follow=follow)

    def read_link(self, path: bytes) -> bytes:
        """Return a link's target."""
        where, rest = self._resolve(path)
        if where is None:
            raise refusal(errno.EINVAL)
        return where.read_link(rest)

    def entries(self) -> list[DirectoryEntry]:
        """Return the names of the mounts, or of their parents."""
        names = dict.fromkeys(path.partition(b"/")[0] for path in self._mounted)
        return [DirectoryEntry(name, 1, NodeKind.DIRECTORY) for name in names]

    def below(self, path: bytes) -> tuple[Directory, bytes]:
        """Return where a path to be changed leads.

        Raises:
            OSError: It leads into no mount (EROFS).
        """
        try:
            where, rest = self._resolve(path)
        except FileNotFoundError as error:
            raise refusal(errno.EROFS) from error
        if where is None or rest == b".":
            raise refusal(errno.EROFS)
        return where, rest

    def _resolve(self, path: bytes) -> tuple[Directory | None, bytes]:
        """Return the mount a path leads into and the rest; None and the path if it is above all."""
        if not path:
            raise refusal(errno.ENOENT)
        if path.startswith(b"/"):
            raise refusal(errno.EPERM)
        parts: list[bytes] = []
        left = [part for part in path.split(b"/") if part not in (b"", b".")]
        if len(left) > MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        while left:
            part = left.pop(0)
            if part == b"..":
                parts = parts[:-1]  # the parent of `/` is `/`
                continue
            parts.append(part)
            mounted = self._mounted.get(b"/".join(parts))
            if mounted is not None:
                climbs = where_it_climbs(mounted, left)
                if climbs is None:
                    rest = b"/".join(left)
                    return mounted, rest + b"/" * path.endswith(b"/") if rest else b"."
                left = left[climbs:]
            elif not self._has(parts):
                raise refusal(errno.ENOENT)
        return None, b"/".join(parts)

    def _has(self, parts: list[bytes]) -> bool:
        prefix = b"/".join(parts) + b"/"
        return any(path.startswith(prefix) for path in self._mounted)

    def _below(self, path: bytes) -> MountPoints:
        if not path:
            return self
        prefix = path + b"/"
        return MountPoints(
            {
                path.removeprefix(prefix): node
                for path, node in self._mounted.items()
                if path.startswith(prefix)
            },
            (self.path + b"/" + path).lstrip(b"/"),
        )


def reached(directory: Directory | MountPoints, path: bytes) -> tuple[Directory, bytes]:
    """Return where a path to be changed leads, through a mount or not."""
    return directory.below(path) if isinstance(directory, MountPoints) else (directory, path)


def where_it_climbs(directory: Directory, parts: list[bytes]) -> int | None:
    """Return the index of the `..` that leads above a mounted directory, or None.

    The parts before it lead back to the directory itself, whatever they name.

    Raises:
        OSError: Those parts lead nowhere.
    """
    depth = 0
    for i, part in enumerate(parts):
        if part != b"..":
            depth += 1
        elif depth:
            depth -= 1
        elif _leads_back(directory, parts[:i]):
            return i
    return None


def _leads_back(directory: Directory, parts: list[bytes]) -> bool:
    if not parts:
        return True
    seen, own = directory.status_of(b"/".join(parts), follow=True), directory.status()
    return (seen.device, seen.inode) == (own.device, own.inode)


def from_the_root(preopened: bytes, directory: Directory, path: bytes) -> bytes:
    """Return the same path from `/` if it climbs above its mount; else b"".

    Args:
        preopened: Where the directory is mounted.
        directory: The directory.
        path: The path from there.
    """
    if path.startswith(b"/"):
        return b""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." not in parts or len(parts) > MAX_DEPTH or where_it_climbs(directory, parts) is None:
        return b""
    return preopened.strip(b"/") + b"/" + path
