"""The files at paths of a checkout: examined and copied by descriptors, through no link."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import FileSystem
from ...base.files.filesystem import READ_FLAGS, opened
from ...base.files.regular_file import read_descriptor
from ...base.files.safe_path import directory_beneath

MAX_FILE: Final = 256 << 20
"""The largest file that is saved for going back, in bytes."""
_MAX_ATTRIBUTES: Final = 1 << 20


class EntryKind(Enum):
    """The kinds of entries at a path."""

    ABSENT = "absent"
    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    SPECIAL = "special"
    TOO_LARGE = "too large"
    UNREACHABLE = "unreachable"


@frozen
class PathState:
    """The state of a path.

    Attributes:
        kind: The kind of its entry.
        mode: Its permission bits.
        sha256: The digest of its content, or of a link's target.
        mtime_ns: When its content was last changed, in nanoseconds.
        blocker: If it can't be reached, what is in place of a folder on the way.
    """

    kind: EntryKind
    mode: int = 0
    sha256: str = ""
    mtime_ns: int = 0
    blocker: str = ""

    def same(self, other: PathState) -> bool:
        """Return whether the content and the executable bit are the same."""
        return (
            self.kind is other.kind
            and self.sha256 == other.sha256
            and (
                self.kind is not EntryKind.FILE or _executable(self.mode) == _executable(other.mode)
            )
        )


def _executable(mode: int) -> bool:
    return bool(mode & 0o100)


ABSENT: Final = PathState(EntryKind.ABSENT)


@frozen
class PlannedPath:
    """A path that is written.

    Attributes:
        path: The path.
        before: Its present state.
        after: Its new state: for a file, with the mode that git gives it.
    """

    path: bytes
    before: PathState
    after: PathState


def parts_of(path: bytes) -> list[str]:
    """Return a path's components, for the system's functions."""
    return [os.fsdecode(one) for one in path.split(b"/")]


def folders_above(paths: Iterable[bytes]) -> list[bytes]:
    """Return all folders that contain the paths, the upper before the lower."""
    found = set()
    for path in paths:
        parts = path.split(b"/")
        found |= {b"/".join(parts[:end]) for end in range(1, len(parts))}
    return sorted(found)


@contextmanager
def passing_over_absent() -> Iterator[None]:
    """Ignore errors for a path that is missing or has no folder above it."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            raise


def look_at(fs: FileSystem, top_fd: int, path: bytes) -> tuple[PathState, bytes]:
    """Return the state of a path, and its content.

    Raises:
        OSError: It can't be read.
    """
    *above, name = parts_of(path)
    try:
        with directory_beneath(fs, top_fd, above) as folder_fd:
            return look_in(fs, folder_fd, name)
    except FileNotFoundError:
        return ABSENT, b""
    except OSError as error:
        if error.errno == errno.ELOOP:
            return PathState(EntryKind.UNREACHABLE, blocker=str(error.filename)), b""
        if error.errno == errno.ENOTDIR:
            return ABSENT, b""
        raise


def look_in(fs: FileSystem, folder_fd: int, name: str) -> tuple[PathState, bytes]:
    """Return the state of a folder's entry, and its content.

    Raises:
        OSError: It can't be read; `FileNotFoundError` if it is missing.
    """
    status = fs.stat(name, dir_fd=folder_fd)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(os.readlink(name, dir_fd=folder_fd))
        return PathState(EntryKind.LINK, 0, _digest(content), status.st_mtime_ns), content
    if stat.S_ISDIR(status.st_mode):
        return PathState(EntryKind.FOLDER, mode), b""
    if not stat.S_ISREG(status.st_mode):
        return PathState(EntryKind.SPECIAL, mode), b""
    if status.st_size > MAX_FILE:
        return PathState(EntryKind.TOO_LARGE, mode), b""
    with opened(fs, name, READ_FLAGS, dir_fd=folder_fd) as fd:
        status = fs.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return PathState(EntryKind.SPECIAL, mode), b""
        content = read_descriptor(fs, fd, status.st_size)
    mode = stat.S_IMODE(status.st_mode)
    return PathState(EntryKind.FILE, mode, _digest(content), status.st_mtime_ns), content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def copy_of(
    fs: FileSystem, top_fd: int, paths: Iterable[bytes], target: Path
) -> dict[bytes, PathState]:
    """Copy the files at paths into a folder of our own, under the same names.

    Files and links are copied, and the attributes files of the folders on the way.

    Returns:
        The state of each path.

    Raises:
        OSError: A file can't be read or written.
    """
    paths = list(paths)
    found = {}
    for path in paths:
        standing, content = look_at(fs, top_fd, path)
        found[path] = standing
        _put(target, path, standing, content)
    for folder in (b"", *folders_above(paths)):
        path = folder + b"/.gitattributes" if folder else b".gitattributes"
        if path not in found:
            standing, content = look_at(fs, top_fd, path)
            if standing.kind is EntryKind.FILE and len(content) <= _MAX_ATTRIBUTES:
                _put(target, path, standing, content)
    return found


def _put(target: Path, path: bytes, standing: PathState, content: bytes) -> None:
    place = target / os.fsdecode(path)
    if standing.kind is EntryKind.FILE:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o700 if _executable(standing.mode) else 0o600)
    elif standing.kind is EntryKind.LINK:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.fsdecode(content))


def folder_modes(fs: FileSystem, top_fd: int, folders: Iterable[bytes]) -> dict[bytes, int | None]:
    """Return the permission bits of folders; None for each that is missing."""
    found: dict[bytes, int | None] = {}
    for folder in folders:
        standing, _ = look_at(fs, top_fd, folder)
        found[folder] = standing.mode if standing.kind is EntryKind.FOLDER else None
    return found


def names_in(fs: FileSystem, top_fd: int, folder: bytes) -> list[str]:
    """Return the names in a folder; none if it is no folder."""
    above = parts_of(folder) if folder else []
    with suppress(OSError), directory_beneath(fs, top_fd, above) as fd:
        return fs.listdir(fd)
    return []


def contents_below(
    fs: FileSystem, top_fd: int, folder: bytes, limit: int
) -> tuple[list[bytes], list[bytes]]:
    """Return the files and the folders below a folder, together at most `limit`.

    Raises:
        OSError: A folder can't be listed.
    """
    files: list[bytes] = []
    folders: list[bytes] = []
    waiting = [folder]
    while waiting and len(files) + len(folders) < limit:
        one = waiting.pop()
        with directory_beneath(fs, top_fd, parts_of(one)) as fd:
            for name in fs.listdir(fd)[: limit - len(files) - len(folders)]:
                path = one + b"/" + os.fsencode(name)
                if stat.S_ISDIR(fs.stat(name, dir_fd=fd).st_mode):
                    folders.append(path)
                    waiting.append(path)
                else:
                    files.append(path)
    return files, folders
