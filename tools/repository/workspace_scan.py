"""A look at all that a workspace holds, before git sees it: by descriptors, within limits."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import Factory, define, frozen

from ..durable import FileSystem
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from ..errors import ErrorKind
from .errors import RepositoryError, printable
from .manifest import Manifest

_FAULTS_NAMED: Final = 20
_MOVED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_TYPE: Final = 0o170000
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
        names: The regular files and links that git is given, by path.
        files: The modes of the regular files, by path.
        folders: The modes of the folders, by path.
        empty: The folders that hold nothing that is kept.
        left_out: What git does not take.
        size_bytes: How much the files hold.
    """

    names: list[bytes] = Factory(list)
    files: dict[bytes, int] = Factory(dict)
    folders: dict[bytes, int] = Factory(dict)
    empty: list[bytes] = Factory(list)
    left_out: list[bytes] = Factory(list)
    size_bytes: int = 0

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
        self.found = WorkspaceScan()
        self.faults: list[str] = []

    def look(self, fd: int, prefix: bytes, depth: int) -> bool:
        """Look at what a folder holds; return whether anything of it is kept."""
        fs, found, limits, look_at = self._fs, self.found, self._limits, self._fs.stat
        names, files = found.names, found.files
        folders: list[tuple[str, bytes, int]] = []
        entries = fs.listdir(fd)
        self._count(len(entries))
        kept = False
        for entry in entries:
            try:
                status = look_at(entry, dir_fd=fd)
            except FileNotFoundError:
                continue
            mode = status.st_mode
            name = os.fsencode(entry)
            path = prefix + name
            if name[:1] == b"." and is_left_out(name, mode):
                found.left_out.append(path)
                continue
            if len(path) > limits.max_path_bytes:
                self._fault(path, f"its path has more than {limits.max_path_bytes:,} bytes")
                continue
            kind = mode & _TYPE
            if kind == stat.S_IFREG:
                size = status.st_size
                found.size_bytes += size
                if size > limits.max_file_bytes or name == b".gitattributes":
                    self._check_size(path, name, size)
                files[path] = mode
                names.append(path)
            elif kind == stat.S_IFDIR:
                folders.append((entry, path, mode))
            elif kind == stat.S_IFLNK:
                names.append(path)
            else:
                self._fault(path, f"it is {_SPECIAL.get(kind, 'no file, link or folder')}")
            kept = True
        if found.size_bytes > limits.max_bytes:
            self._stop(f"its files hold more than {limits.max_bytes:,} bytes")
        for entry, path, mode in folders:
            self._enter(fd, entry, path, mode, depth + 1)
        return kept

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
