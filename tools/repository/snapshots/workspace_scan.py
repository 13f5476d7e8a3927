"""A look at a workspace's whole content, before git sees it: by descriptors, within limits."""

from __future__ import annotations

import errno
import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...base.clock import utc_now
from ...base.files import FileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ..errors import SnapshotRefused, printable
from .folder_look import (
    FIELDS,
    MODE,
    MODE_SHIFT,
    SIZE,
    FolderLook,
    Mark,
    is_file,
    looks_of,
    mark_of,
)
from .manifest import MODE_BITS, WorkspaceManifest, common_modes, kind_of_file

_FAULTS_NAMED: Final = 20
_MOVED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_ATTRIBUTES: Final = b".gitattributes"
_REPOSITORY: Final = b".git"
_RULES: Final = b".gitignore"
_TYPE: Final = 0o170000
_KEPT: Final = frozenset({stat.S_IFREG, stat.S_IFLNK})
_SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class ScanLimits(NamedTuple):
    """The limits of a workspace's content.

    Attributes:
        max_entries: The number of files, links and folders.
        max_bytes: The size of all files together, in bytes.
        max_file_bytes: The size of one file, in bytes.
        max_attributes_bytes: The same for `.gitattributes`, which git reads into memory.
        max_depth: The nesting of folders.
        max_path_bytes: The longest path, in bytes.
    """

    max_entries: int = 200_000
    max_bytes: int = 4 << 30
    max_file_bytes: int = 1 << 30
    max_attributes_bytes: int = 1 << 20
    max_depth: int = 100
    max_path_bytes: int = 3_800

    def in_order(self) -> tuple[int, ...]:
        """Return the limits in the order of `WorkspaceScan.measures`."""
        return tuple(self)


class FileChoice(Protocol):
    """Chooses the entries of a person's work tree that are stored.

    Pipes, sockets, devices, too large files and nested repositories are then left out, not refused,
    and a changed `.gitignore` has the folders below it listed again.
    """

    @property
    def at_once(self) -> int | None:
        """The most entries to list again, and files to store, in one call; any number if None."""
        ...

    def of(self, fs: FileSystem, root_fd: int, path: Path) -> Callable[[bytes, bool], bool]:
        """Return a test of an entry's path, and of whether it is a folder: is it left out?"""
        ...


class TooMuchAtOnce(SnapshotRefused):
    """More has changed than one call may store; nothing was stored."""


@dataclass(slots=True, eq=False, repr=False)
class WorkspaceScan:
    """The content of a workspace.

    Attributes:
        looks: Its folders, the workspace itself first, with the files of each.
        empty: The folders without anything to store.
        entries: The number of files, links and folders, including what is left out.
        size_bytes: The size of the files.
        looked_at_ns: When the look started, in nanoseconds since 1970.
        same: Whether everything is unchanged since the given look.
    """

    looks: dict[bytes, FolderLook] = field(default_factory=dict)
    empty: list[bytes] = field(default_factory=list)
    entries: int = 0
    size_bytes: int = 0
    looked_at_ns: int = 0
    same: bool = False

    @property
    def count(self) -> int:
        """The number of files and links that git is given."""
        return sum(look.count for look in self.looks.values())

    def measures(self) -> tuple[int, ...]:
        """Return the measures that the limits apply to."""
        largest = attributes = depth = longest = 0
        for path, look in self.looks.items():
            sizes = look.column(SIZE)
            largest = max(largest, max(sizes, default=0))
            if _ATTRIBUTES in look.names and _ATTRIBUTES in look.file_names():
                attributes = max(attributes, sizes[look.file_names().index(_ATTRIBUTES)])
            depth = max(depth, path.count(b"/") + bool(path))
            longest = max(longest, len(path), len(look.prefix) + look.longest)
        return (self.entries, self.size_bytes, largest, attributes, depth, longest)

    def names(self) -> Iterator[bytes]:
        """Return the paths that git is given."""
        for look in self.looks.values():
            prefix = look.prefix
            for name in look.file_names():
                yield prefix + name

    def files(self) -> Iterator[tuple[bytes, int]]:
        """Return the paths and the modes of the regular files."""
        for look in self.looks.values():
            yield from _files_of(look)

    @property
    def folders(self) -> dict[bytes, int]:
        """The modes of the folders, by path."""
        return {path: look.mode for path, look in self.looks.items() if path}

    @property
    def left_out(self) -> list[bytes]:
        """The paths that git does not accept."""
        return [look.prefix + name for look in self.looks.values() for name in look.left_out]

    def manifest(self) -> WorkspaceManifest:
        """Return the parts that a git tree lacks."""
        counted = {path: look.mode_counts() for path, look in self.looks.items()}
        counts: Counter[int] = Counter()
        for modes in counted.values():
            for mode, count in modes.items():
                counts[mode] += count if is_file(mode) else 0
        folders = self.folders
        common = common_modes(counts, Counter(folders.values()))
        unusual = {mode for mode in counts if mode & MODE_BITS != common[kind_of_file(mode)]}
        files = {
            path: mode
            for at, look in self.looks.items()
            if not unusual.isdisjoint(counted[at])
            for path, mode in _files_of(look)
        }
        return WorkspaceManifest.of(files, folders, self.empty, self.left_out, common=common)


def _files_of(look: FolderLook) -> Iterator[tuple[bytes, int]]:
    return ((path, mode) for path, mode in look.modes() if is_file(mode))


def _rules_in(look: FolderLook | None) -> object:
    """Return the status of a folder's `.gitignore`; None if it has none."""
    if look is None or _RULES not in look.names or _RULES not in (names := look.file_names()):
        return None
    return look.numbers[names.index(_RULES) :: look.count]


def is_left_out(name: bytes, mode: int) -> bool:
    """Return whether git refuses a name: `.git` in any spelling, or a link called `.gitmodules`."""
    folded = name.lower()
    return folded == b".git" or (folded == b".gitmodules" and stat.S_ISLNK(mode))


def scan_workspace(
    fs: FileSystem,
    root_fd: int,
    *,
    workspace: Path,
    limits: ScanLimits | None = None,
    known: Mapping[bytes, FolderLook] | None = None,
    choice: FileChoice | None = None,
) -> WorkspaceScan:
    """Look at a workspace's whole content; no link is followed, nothing is opened but folders.

    Entries that disappear meanwhile are skipped: nobody should work in it.

    Args:
        fs: The file system.
        root_fd: The workspace, open.
        workspace: Its path, for messages.
        limits: The limits of its content.
        known: The look before, within the same limits: a folder that is unchanged since is not
            listed again.
        choice: Chooses the entries that are stored; all if None.

    Raises:
        SnapshotRefused: It holds a pipe, a socket or a device, or more than is allowed.
        TooMuchAtOnce: More entries have to be listed again than the choice allows.
        OSError: It can't be read.
    """
    scanner = _Scanner(fs, limits if limits is not None else ScanLimits(), known or {})
    if choice is not None:
        scanner.leaves_out = choice.of(fs, root_fd, workspace)
        scanner.most_listed = choice.at_once
    with suppress(_ScanStopped):
        scanner.look(root_fd, b"", 0)
    if scanner.is_too_much:
        raise TooMuchAtOnce(workspace, ["too much has changed for one call"])
    if scanner.faults:
        raise SnapshotRefused(workspace, scanner.faults[:_FAULTS_NAMED])
    scanner.found.same = scanner.others == 0 and len(scanner.found.looks) == len(known or ())
    return scanner.found


class _ScanStopped(Exception):
    """A limit is reached that makes looking further pointless."""


class _Scanner:
    """Scans one workspace, a folder at a time."""

    def __init__(
        self, fs: FileSystem, limits: ScanLimits, known: Mapping[bytes, FolderLook]
    ) -> None:
        self._fs = fs
        self._limits = limits
        self._known = known
        self.found = WorkspaceScan(looked_at_ns=int(utc_now().timestamp() * 1e9))
        self.others = 0
        """The number of folders that differ from the known ones."""
        self.faults: list[str] = []
        self.leaves_out: Callable[[bytes, bool], bool] | None = None
        self.most_listed: int | None = None
        self.is_too_much = False
        self._relisted = 0

    def look(self, fd: int, path: bytes, depth: int, *, by_new_rules: bool = False) -> bool:
        """Look at a folder's content; return whether any of it is stored."""
        status = self._fs.fstat(fd)
        mark = mark_of(status)  # before its names: what changes them meanwhile changes it, too
        known = self._known.get(path)
        look = None
        if (
            known is not None
            and known.mark == mark
            and known.mode == status.st_mode
            and not by_new_rules
            and not (known.left_out and self.leaves_out is not None)  # these may have shrunk
        ):
            look = self._again(fd, known)
        if self.leaves_out is not None and look is not known and not by_new_rules:
            by_new_rules = look is not None and _rules_in(look) != _rules_in(known)
            look = None if by_new_rules else look
        if look is None:
            look = self._listed(fd, path, mark, status.st_mode)
            by_new_rules = by_new_rules or _rules_in(look) != _rules_in(known)
        if look is not known:
            self.others += 1
        self.found.looks[path] = look
        self.found.size_bytes += sum(look.column(SIZE))
        if self.found.size_bytes > self._limits.max_bytes:
            self._stop(f"its files hold more than {self._limits.max_bytes:,} bytes")
        for name in look.below:
            self._enter(fd, name, look.prefix + name, depth + 1, by_new_rules=by_new_rules)
        return bool(look.numbers or look.below)

    def _again(self, fd: int, known: FolderLook) -> FolderLook | None:
        """Look at the files of a folder with unchanged names; None if the names changed."""
        names = known.file_names()
        numbers = looks_of(self._fs, fd, names)
        if numbers == known.numbers:
            self._count(known.count + len(known.below) + len(known.left_out))
            return known
        look = replace(known, numbers=numbers)
        if not all(number >> MODE_SHIFT & _TYPE in _KEPT for number in look.column(MODE)):
            return None
        most = self._limits.max_file_bytes
        if self.leaves_out is not None and max(look.column(SIZE), default=0) > most:
            return None
        self._count(known.count + len(known.below) + len(known.left_out))
        for name, size in zip(names, look.column(SIZE), strict=True):
            self._check_size(known.prefix + name, name, size)
        return look

    def _listed(self, fd: int, path: bytes, mark: Mark, mode: int) -> FolderLook:
        """Look at a folder from the beginning."""
        entries = self._fs.listdir(fd)
        self._count(len(entries))
        self._relisted += len(entries)
        if self.most_listed is not None and self._relisted > self.most_listed:
            self.is_too_much = True
            raise _ScanStopped
        names = os.fsencode("\0".join(entries)).split(b"\0") if entries else []
        numbers = looks_of(self._fs, fd, names)
        count = len(names)
        modes = [number >> MODE_SHIFT for number in numbers[MODE * count :]]
        prefix = path + b"/" if path else b""
        if self.leaves_out is not None and path and _REPOSITORY in names:  # another repository
            return FolderLook(path, mode, mark, b"", array("Q"), left_out=(_REPOSITORY,))
        kept, below, left_out = [], [], []
        for at, (name, file_mode) in enumerate(zip(names, modes, strict=True)):
            if not file_mode:
                continue  # it has disappeared
            size = numbers[SIZE * count + at]
            if self._is_not_chosen(prefix + name, file_mode):
                continue
            if is_left_out(name, file_mode) or self._is_unfit(name, file_mode, size):
                left_out.append(name)
            elif self._may_be_kept(prefix + name, name, file_mode, size):
                if stat.S_ISDIR(file_mode):
                    below.append(name)
                else:
                    kept.append(at)
        if len(kept) != count:
            names = [names[at] for at in kept]
            numbers = array(
                "Q", [numbers[field * count + at] for field in range(FIELDS) for at in kept]
            )
        longest = max(map(len, names), default=0)
        rest = (longest, tuple(below), tuple(left_out))
        return FolderLook(path, mode, mark, b"\0".join(names), numbers, *rest)

    def _is_not_chosen(self, path: bytes, mode: int) -> bool:
        is_rules = path.endswith(_RULES) and path.rpartition(b"/")[2] == _RULES
        if self.leaves_out is None or (is_rules and not stat.S_ISDIR(mode)):
            return False  # a change of the rules has to be seen
        return self.leaves_out(path, stat.S_ISDIR(mode))

    def _is_unfit(self, name: bytes, mode: int, size: int) -> bool:
        """Return whether an entry of a person's work tree is left out, where others are refused."""
        if self.leaves_out is None or name == _ATTRIBUTES:  # git would read these
            return False
        kind = mode & _TYPE
        is_large = kind == stat.S_IFREG and size > self._limits.max_file_bytes
        return is_large or kind in _SPECIAL

    def _may_be_kept(self, path: bytes, name: bytes, mode: int, size: int) -> bool:
        """Return whether an entry is stored or entered; add a fault if it must not be."""
        limits = self._limits
        if len(path) > limits.max_path_bytes:
            self._fault(path, f"its path has more than {limits.max_path_bytes:,} bytes")
            return False
        kind = mode & _TYPE
        if kind == stat.S_IFREG:
            self._check_size(path, name, size)
        elif kind not in {stat.S_IFDIR, stat.S_IFLNK}:
            self._fault(path, f"it is {_SPECIAL.get(kind, 'no file, link or folder')}")
            return False
        return True

    def _enter(
        self, parent_fd: int, name: bytes, path: bytes, depth: int, *, by_new_rules: bool
    ) -> None:
        if depth > self._limits.max_depth:
            self._stop(f"folders are nested deeper than {self._limits.max_depth}")
        try:
            fd = self._fs.open(os.fsdecode(name), DIRECTORY_FLAGS, dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in _MOVED:
                self._fault(path, f"it can't be read ({error.strerror})")
            return
        try:
            if not self.look(fd, path, depth, by_new_rules=by_new_rules):
                self.found.empty.append(path)
        finally:
            close_reader(self._fs, fd)

    def _count(self, more: int) -> None:
        self.found.entries += more
        if self.found.entries > self._limits.max_entries:
            self._stop(f"it holds more than {self._limits.max_entries:,} files and folders")

    def _check_size(self, path: bytes, name: bytes, size: int) -> None:
        limits = self._limits
        most = limits.max_attributes_bytes if name == _ATTRIBUTES else limits.max_file_bytes
        if size > most:
            self._fault(path, f"it has {size:,} bytes, {most:,} are allowed")

    def _fault(self, path: bytes, problem: str) -> None:
        self.faults.append(f"{printable(path, 200)}: {problem}")
        if len(self.faults) >= _FAULTS_NAMED:
            raise _ScanStopped

    def _stop(self, problem: str) -> None:
        self.faults.append(problem)
        raise _ScanStopped
