"""A person's marks on the entries of a directory, and what Git tracks in it.

    $XDG_STATE_HOME/agentforge/{kind}/{real path of the directory}/
        {name} -> {the mark's text}

No file in a repository can create a mark. It is a dangling symbolic link: one system call writes
it completely. Nothing is synced, because a person can repeat a mark lost in a power failure.

What Git tracks, read from the repository's index, is what a clone brought: a repository can't put a
file into a checkout without an entry in the index, nor a `.git` of its own. No program is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..data_folder import read_plain, state_of


class PersonMarks:
    """The marks of one kind on the entries of one directory; each is a dangling link.

    Args:
        base: The directory.
        kind: The folder of the person's state directory for such marks.
        environment: Locates the state directory.
    """

    def __init__(
        self, base: Path, kind: str, *, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._base = base
        self._kind = kind
        self._environment = environment

    @property
    def folder(self) -> Path:
        """The folder of the marks; it need not exist."""
        return state_of(self._base, self._kind, self._environment)

    def names(self) -> list[str]:
        """Return the names that have a mark; none if the folder can't be read."""
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def said(self, name: str) -> str | None:
        """Return the text of a name's mark; None without one."""
        try:
            return os.readlink(self.folder / name)
        except OSError:
            return None

    def write(self, name: str, says: str) -> None:
        """Set the text of a name's mark.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        mark = os.path.join(self.folder, name)
        try:
            os.symlink(says, mark)
        except FileExistsError:
            os.unlink(mark)
            os.symlink(says, mark)
        except FileNotFoundError:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            os.symlink(says, mark)

    def remove(self, names: Iterable[str]) -> None:
        """Remove the marks of names, ignoring the system's errors."""
        folder = self.folder
        for name in names:
            with suppress(OSError):
                os.unlink(folder / name)


_GIT: Final = ".git"
_POINTER: Final = b"gitdir: "
_MAX_POINTER_BYTES: Final = 8192
_MAX_INDEX_BYTES: Final = 1 << 30
_HEADER_BYTES: Final = 12
_BEFORE_NAME: Final = 40
"""The bytes of an entry before the object's name: times, device, inode, mode, owner, size."""
_WITH_PREFIXES: Final = 4
"""The version of Git's index in which a path omits the prefix it shares with the previous one."""
_EXTENDED: Final = 0x40
_MOST_LENGTH: Final = 0xFFF
_NAME_AND_FLAGS: Final = 22
"""The bytes to read before a path: at least the object's name's last 20, and the flags."""
_SHARED: Final = "sharedindex."

_Stamps = tuple[str, str, tuple[tuple[str, int, int, int], ...]]


class Tracked:
    """What Git tracks in a directory.

    Args:
        versions: A text that identifies the versions of the files below each name, by the name.
        others: The same for every other name: empty, unless an index can't be understood.
    """

    __slots__ = ("others", "versions")

    def __init__(self, versions: Mapping[str, str] | None = None, others: str = "") -> None:
        self.versions: Final[Mapping[str, str]] = versions or {}
        self.others: Final = others

    def __bool__(self) -> bool:
        return bool(self.versions or self.others)

    def version(self, name: str) -> str:
        """Return a text that identifies the versions of the files below a name; empty for none."""
        return self.versions.get(name, self.others)


class GitIndex:
    """The index of the Git repository around a directory. May be shared between threads.

    Args:
        directory: The directory; links to it are resolved.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: tuple[_Stamps, Tracked] | None = None

    def tracked(self) -> Tracked:
        """Return what is tracked now; the index is read again only if it has changed."""
        directory = os.path.realpath(self._directory)
        found = _index_around(directory)
        if found is None:
            return Tracked()
        root, index = found
        stamps = (root, index, tuple(_stamps(index)))
        known = self._known
        if known is None or known[0] != stamps:
            self._known = known = (stamps, _read(index, _prefix(directory, root)))
        return known[1]


def _prefix(directory: str, root: str) -> bytes:
    below = os.path.relpath(directory, root)
    return b"" if below == os.curdir else os.fsencode(os.path.join(below, ""))


def _index_around(directory: str) -> tuple[str, str] | None:
    """Return the root and the index of the Git repository that a directory is in, or None."""
    while True:
        found = os.path.join(directory, _GIT)
        if os.path.isdir(found):
            return directory, os.path.join(found, "index")
        if os.path.isfile(found):
            index = _index_named_by(found)
            return None if index is None else (directory, index)
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def _index_named_by(pointer: str) -> str | None:
    """Return the index of a linked work tree or a submodule, whose `.git` is a file."""
    try:
        said = read_plain(pointer, most=_MAX_POINTER_BYTES)
    except OSError:
        return None
    if not said.startswith(_POINTER):
        return None
    folder = os.fsdecode(said.removeprefix(_POINTER).strip())
    return os.path.join(os.path.dirname(pointer), folder, "index")


def _files(index: str) -> list[str]:
    """Return the files of an index: itself, and the shared ones if it is split."""
    folder = os.path.dirname(index)
    try:
        shared = sorted(one for one in os.listdir(folder) if one.startswith(_SHARED))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in ("index", *shared)]


def _stamps(index: str) -> Iterator[tuple[str, int, int, int]]:
    for path in _files(index):
        with suppress(OSError):
            found = os.stat(path)
            yield path, found.st_ino, found.st_size, found.st_mtime_ns


def _read(index: str, prefix: bytes) -> Tracked:
    import hashlib  # slow import, and few of these directories are in a repository

    versions: dict[bytes, list[bytes]] = {}
    unclear = []
    for path in _files(index):
        with suppress(OSError):
            data = read_plain(path, most=_MAX_INDEX_BYTES)
            try:
                for before, name in list(_entries(data, prefix, _name_bytes(index))):
                    first = name[len(prefix) :].partition(b"/")[0]
                    versions.setdefault(first, []).append(before + name)
            except (IndexError, ValueError):
                unclear.append(data)
    return Tracked(
        versions={
            os.fsdecode(name): hashlib.sha256(b"".join([*found, *unclear])).hexdigest()
            for name, found in versions.items()
        },
        others=hashlib.sha256(b"".join(unclear)).hexdigest() if unclear else "",
    )


def _name_bytes(index: str) -> int:
    """Return the length of an object's name in a repository: SHA-1's, or SHA-256's."""
    folder = os.path.dirname(index)
    with suppress(OSError):
        common = read_plain(os.path.join(folder, "commondir"), most=_MAX_POINTER_BYTES)
        folder = os.path.join(folder, os.fsdecode(common.strip()))
    try:
        said = read_plain(os.path.join(folder, "config"), most=_MAX_POINTER_BYTES).lower()
    except OSError:
        return 20
    return 32 if b"objectformat" in said and b"sha256" in said else 20


def _entries(index: bytes, prefix: bytes, name_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (end of the object's name with the flags, path) of each entry below a prefix."""
    if prefix and int.from_bytes(index[4:8], "big") != _WITH_PREFIXES:
        yield from _found_entries(index, prefix)
        return
    for before, path in _all_entries(index, name_bytes):
        if path.startswith(prefix):
            yield before, path


def _found_entries(index: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the same by a search, a hundred times as fast, where paths are stored in full."""
    at = index.find(prefix)
    while at >= 0:
        end = index.index(b"\0", at)
        lengths = {int.from_bytes(index[at - n : at - n + 2], "big") & _MOST_LENGTH for n in (2, 4)}
        if min(end - at, _MOST_LENGTH) in lengths:  # otherwise it is inside another path
            yield index[at - _NAME_AND_FLAGS : at], index[at:end]
        at = index.find(prefix, end)


def _all_entries(index: bytes, name_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the same for all entries.

    An entry is 40 bytes, the object's name, the flags (4 bytes where they are extended, else 2),
    and the path up to a zero byte, padded with zero bytes to a multiple of 8. In an index whose
    paths are relative to the previous one, there is no padding, and the number of bytes to cut off
    the previous path precedes the rest of the path, as a variable-width number.
    """
    prefixed = int.from_bytes(index[4:8], "big") == _WITH_PREFIXES
    at, path = _HEADER_BYTES, b""
    for _ in range(int.from_bytes(index[8:12], "big")):
        entry, flags = at, at + _BEFORE_NAME + name_bytes
        begin = at = flags + (4 if index[flags] & _EXTENDED else 2)
        if prefixed:
            byte = index[at]
            cut, at = byte & 0x7F, at + 1
            while byte & 0x80:
                byte = index[at]
                cut, at = ((cut + 1) << 7) | (byte & 0x7F), at + 1
            path = path[: len(path) - cut]
        else:
            path = b""
        end = index.index(b"\0", at)
        path += index[at:end]
        at = end + 1 if prefixed else entry + (end - entry + 8) // 8 * 8
        yield index[begin - _NAME_AND_FLAGS : begin], path


__all__ = ["GitIndex", "PersonMarks", "Tracked"]
