"""A look at all that a workspace holds, before git sees it: by descriptors, within limits."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from stat import ST_INO, ST_MODE, ST_SIZE  # faster than by attribute
from typing import Final

from attrs import Factory, define, frozen

from ..clock import utc_now
from ..durable import FileSystem
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from ..errors import ErrorKind
from .errors import RepositoryError, printable
from .index_memory import Look
from .manifest import Manifest

_FAULTS_NAMED: Final = 20
_MOVED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_TYPE: Final = 0o170000
_FILE: Final = stat.S_IFREG
_DOT: Final = ord(".")
_SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


@frozen
class ScanLimits:
    """How much a workspace may hold.

    Attributes:
        max_entries: How many files, links and folders.
        max_bytes: How much all files hold together, in bytes.
        max_file_bytes: How much one file holds, in bytes.
        max_attributes_bytes: The same for `.gitattributes`, which git reads into memory.
        max_depth: How deep folders are nested.
        max_path_bytes: The longest path, in bytes.
    """

    max_entries: int = 200_000
    max_bytes: int = 4 << 30
    max_file_bytes: int = 1 << 30
    max_attributes_bytes: int = 1 << 20
    max_depth: int = 100
    max_path_bytes: int = 3_800


class SnapshotRefused(RepositoryError):
    """A workspace holds what no snapshot can keep; nothing was stored.

    Attributes:
        workspace: The workspace.
        faults: What stands against it, the first twenty.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, workspace: Path, faults: Sequence[str]) -> None:
        super().__init__(
            f"the workspace {workspace} can't be kept as a snapshot: {'; '.join(faults)}. Nothing "
            "was stored. Remove or shrink what is named, then try again."
        )
        self.workspace = workspace
        self.faults = tuple(faults)


@define
class WorkspaceScan:
    """What a workspace holds.

    Attributes:
        looks: The regular files and links that git is given, by path, as they looked.
        files: The modes of the regular files, by path.
        folders: The modes of the folders, by path.
        empty: The folders that hold nothing that is kept.
        left_out: What git does not take.
        size_bytes: How much the files hold.
        looked_at_ns: When the look began, in nanoseconds since 1970.
    """

    looks: dict[bytes, Look] = Factory(dict)
    files: dict[bytes, int] = Factory(dict)
    folders: dict[bytes, int] = Factory(dict)
    empty: list[bytes] = Factory(list)
    left_out: list[bytes] = Factory(list)
    size_bytes: int = 0
    looked_at_ns: int = 0

    @property
    def names(self) -> Collection[bytes]:
        """The paths that git is given."""
        return self.looks.keys()

    def manifest(self) -> Manifest:
        """Return what a git tree does not hold of it."""
        return Manifest.of(self.files, self.folders, self.empty, self.left_out)


def is_left_out(name: bytes, mode: int) -> bool:
    """Return whether git refuses a name: `.git` in any spelling, or a link called `.gitmodules`."""
    folded = name.lower()
    return folded == b".git" or (folded == b".gitmodules" and stat.S_ISLNK(mode))


def scan_workspace(
    fs: FileSystem, root_fd: int, *, workspace: Path, limits: ScanLimits | None = None
) -> WorkspaceScan:
    """Look at all that a workspace holds; no link is followed, nothing is opened but folders.

    What disappears meanwhile is passed over: nobody should work in it.

    Args:
        fs: The file system.
        root_fd: The workspace, open.
        workspace: Its path, for messages.
        limits: How much it may hold.

    Raises:
        SnapshotRefused: It holds a pipe, a socket or a device, or more than is allowed.
        OSError: It can't be read.
    """
    scanner = _Scanner(fs, limits if limits is not None else ScanLimits())
    with suppress(_Enough):
        scanner.look(root_fd, b"", 0)
    if scanner.faults:
        raise SnapshotRefused(workspace, scanner.faults[:_FAULTS_NAMED])
    return scanner.found


class _Enough(Exception):
    """A limit is reached that makes looking further pointless."""


class _Scanner:
    """Looks through one workspace. Its loop is written for ten thousand files a snapshot."""

    def __init__(self, fs: FileSystem, limits: ScanLimits) -> None:
        self._fs = fs
        self._limits = limits
        self._entries = 0
        self.found = WorkspaceScan(looked_at_ns=int(utc_now().timestamp() * 1e9))
        self.faults: list[str] = []

    def look(self, fd: int, prefix: bytes, depth: int) -> bool:
        """Look at what a folder holds; return whether anything of it is kept."""
        look_at, files, looks = self._fs.stat, self.found.files, self.found.looks
        largest, size_bytes = self._limits.max_file_bytes, 0
        folders: list[tuple[str, bytes, int]] = []
        entries = self._fs.listdir(fd)
        self._count(len(entries))
        names = os.fsencode("\0".join(entries)).split(b"\0")
        long = len(prefix) + max(map(len, names)) > self._limits.max_path_bytes
        kept = False
        for entry, name in zip(entries, names, strict=bool(entries)):
            try:
                status = look_at(entry, dir_fd=fd)
            except FileNotFoundError:
                continue
            mode = status[ST_MODE]
            path = prefix + name
            if mode & _TYPE == _FILE and name[0] != _DOT and not long:
                size = status[ST_SIZE]
                size_bytes += size
                if size > largest:
                    self._check_size(path, name, size)
                files[path] = mode
                looks[path] = (status[ST_INO], size, status.st_ctime_ns)
                kept = True
            elif self._look_closer(path, name, status):
                kept = True
                if mode & _TYPE == stat.S_IFDIR:
                    folders.append((entry, path, mode))
        self.found.size_bytes += size_bytes
        if self.found.size_bytes > self._limits.max_bytes:
            self._stop(f"its files hold more than {self._limits.max_bytes:,} bytes")
        for entry, path, mode in folders:
            self._enter(fd, entry, path, mode, depth + 1)
        return kept

    def _look_closer(self, path: bytes, name: bytes, status: os.stat_result) -> bool:
        """Look at what is no usual file; return whether it is kept, or looked into."""
        found, limits = self.found, self._limits
        mode, size = status.st_mode, status.st_size
        if is_left_out(name, mode):
            found.left_out.append(path)
            return False
        if len(path) > limits.max_path_bytes:
            self._fault(path, f"its path has more than {limits.max_path_bytes:,} bytes")
            return False
        kind = mode & _TYPE
        if kind == _FILE:
            found.size_bytes += size
            self._check_size(path, name, size)
            found.files[path] = mode
        elif kind not in {stat.S_IFDIR, stat.S_IFLNK}:
            self._fault(path, f"it is {_SPECIAL.get(kind, 'no file, link or folder')}")
        if kind in {_FILE, stat.S_IFLNK}:
            found.looks[path] = (status.st_ino, size, status.st_ctime_ns)
        return True

    def _enter(self, parent_fd: int, entry: str, path: bytes, mode: int, depth: int) -> None:
        if depth > self._limits.max_depth:
            self._stop(f"folders are nested deeper than {self._limits.max_depth}")
        try:
            fd = self._fs.open(entry, DIRECTORY_FLAGS, dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in _MOVED:
                self._fault(path, f"it can't be read ({error.strerror})")
            return
        try:
            self.found.folders[path] = mode
            if not self.look(fd, path + b"/", depth):
                self.found.empty.append(path)
        finally:
            close_reader(self._fs, fd)

    def _count(self, more: int) -> None:
        self._entries += more
        if self._entries > self._limits.max_entries:
            self._stop(f"it holds more than {self._limits.max_entries:,} files and folders")

    def _check_size(self, path: bytes, name: bytes, size: int) -> None:
        limits = self._limits
        most = limits.max_attributes_bytes if name == b".gitattributes" else limits.max_file_bytes
        if size > most:
            self._fault(path, f"it has {size:,} bytes, {most:,} are allowed")

    def _fault(self, path: bytes, problem: str) -> None:
        self.faults.append(f"{printable(path, 200)}: {problem}")
        if len(self.faults) >= _FAULTS_NAMED:
            raise _Enough

    def _stop(self, problem: str) -> None:
        self.faults.append(problem)
        raise _Enough
