"""The status of all files of one folder, in columns.

A snapshot looks at ten thousand files. Where the system has `statx`, it writes each file's status
into one buffer, from which columns are sliced; no object is made for a single file.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import repeat
from typing import Final, cast

from ...base.files import FileSystem, OsFileSystem

FIELDS: Final = 5
"""The columns: inode, size, seconds and nanoseconds of the change, mode with the group."""
SIZE, SECONDS, NANOSECONDS, MODE = range(1, FIELDS)
NEVER: Final = 2**64 - 1
"""The seconds of a file that counts as changed in any case."""
MODE_SHIFT: Final = 32
_MASK64: Final = NEVER
_WORDS: Final = 32
"""The number of 64-bit words of `struct statx`; its layout is the same everywhere."""
_TAKEN: Final = (4, 5, 12, 13, 3)
"""The positions of the columns among these words: the last has the mode above the group."""
_BASIC: Final = 0x7FF
_NO_FOLLOW: Final = 0x100
_PIECE: Final = 256
_FEW: Final = 16
"""Below this number, files are examined one by one, to load nothing for a small workspace."""
_SECOND_NS: Final = 1_000_000_000

Numbers = array  # of "Q", one column after the other
Mark = tuple[int, int, int, int, int]
"""Shows whether a folder still has the same names: inode, size, links, time of its change."""
Look = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FolderLook:
    """A folder's entries and their status.

    Attributes:
        path: The folder; empty for the workspace itself.
        mode: Its mode.
        mark: While it is the same, the folder has the same names.
        names: Its files and links that snapshots store, separated by NUL.
        numbers: The status of each of them, one column after the other.
        longest: The length of the longest of these names, in bytes.
        below: The names of its folders.
        left_out: The names of entries that snapshots do not store.
    """

    path: bytes
    mode: int
    mark: Mark
    names: bytes
    numbers: Numbers[int]
    longest: int = 0
    below: tuple[bytes, ...] = ()
    left_out: tuple[bytes, ...] = ()

    @property
    def count(self) -> int:
        """The number of its files and links that snapshots store."""
        return len(self.numbers) // FIELDS

    @property
    def prefix(self) -> bytes:
        """The prefix of its files' paths."""
        return self.path + b"/" if self.path else b""

    def column(self, which: int) -> Numbers[int]:
        """Return a column."""
        count = self.count
        return self.numbers[which * count : (which + 1) * count]

    def file_names(self) -> list[bytes]:
        """Return the names of its files and links."""
        return self.names.split(b"\0") if self.numbers else []

    def by_name(self) -> dict[bytes, Look]:
        """Return the status of each file."""
        columns = (self.column(which) for which in range(FIELDS))
        return dict(zip(self.file_names(), zip(*columns, strict=True), strict=True))

    def mode_counts(self) -> Mapping[int, int]:
        """Return the number of files and links of each mode."""
        column = self.column(MODE)
        if column == column[:1] * len(column):  # as nearly always; a quick test
            return {column[0] >> MODE_SHIFT: len(column)} if column else {}
        found: Counter[int] = Counter()
        for number, count in Counter(column).items():
            found[number >> MODE_SHIFT] += count
        return found

    def modes(self) -> Iterator[tuple[bytes, int]]:
        """Return the paths of its files and links, with their modes."""
        prefix = self.prefix
        for name, number in zip(self.file_names(), self.column(MODE), strict=True):
            yield prefix + name, number >> MODE_SHIFT

    def holds_the_same(self, other: FolderLook) -> bool:
        """Return whether nothing in the folder differs, except perhaps its mark."""
        return (
            self.names == other.names
            and self.numbers == other.numbers
            and self.below == other.below
            and self.left_out == other.left_out
            and self.mode == other.mode
        )


def mark_of(status: os.stat_result) -> Mark:
    """Return a folder's mark."""
    seconds, rest = divmod(status.st_ctime_ns, _SECOND_NS)
    return (status.st_ino, status.st_size, status.st_nlink, seconds & _MASK64, rest)


def looks_of(fs: FileSystem, fd: int, names: Sequence[bytes]) -> Numbers[int]:
    """Return the status of entries of a folder; no link is followed.

    Args:
        fs: The file system.
        fd: The folder, open.
        names: The entries.

    Returns:
        One column after the other; all are 0 for a missing entry.

    Raises:
        OSError: The system refused.
    """
    answers_itself = not isinstance(fs, OsFileSystem) or type(fs).stat is not OsFileSystem.stat
    call = None if answers_itself or len(names) < _FEW else _statx()
    ask = _asked_one_by_one if call is None else partial(_asked, call)
    whole, *columns = ask(fs, fd, names[:_PIECE])
    for start in range(_PIECE, len(names), _PIECE):
        first, *more = ask(fs, fd, names[start : start + _PIECE])
        whole.extend(first)
        for column, piece in zip(columns, more, strict=True):
            column.extend(piece)
    for column in columns:
        whole.extend(column)
    return whole


class _Room(threading.local):
    """The buffer for the status of some files; each thread has its own."""

    def __init__(self) -> None:
        import ctypes

        size = 8 * _WORDS
        self.buffer = bytearray(size * _PIECE)
        parts = range(0, len(self.buffer), size)
        self.parts = [(ctypes.c_char * size).from_buffer(self.buffer, at) for at in parts]


@cache
def _room() -> _Room:
    return _Room()


def _asked(
    call: Callable[..., int], fs: FileSystem, fd: int, names: Sequence[bytes]
) -> Sequence[Numbers[int]]:
    room = _room()
    answers = list(map(call, repeat(fd), names, repeat(_NO_FOLLOW), repeat(_BASIC), room.parts))
    words = array("Q")
    words.frombytes(memoryview(room.buffer)[: 8 * _WORDS * len(names)])
    columns = [words[at::_WORDS] for at in _TAKEN]
    if any(answers):
        failed = [at for at, answer in enumerate(answers) if answer]
        again = _asked_one_by_one(fs, fd, [names[at] for at in failed])
        for column, more in zip(columns, again, strict=True):
            for at, number in zip(failed, more, strict=True):
                column[at] = number
    return columns


def _asked_one_by_one(fs: FileSystem, fd: int, names: Sequence[bytes]) -> Sequence[Numbers[int]]:
    columns = [array("Q") for _ in range(FIELDS)]
    for name in names:
        try:
            status = fs.stat(os.fsdecode(name), dir_fd=fd)
        except FileNotFoundError:
            numbers: Look = (0,) * FIELDS
        else:
            seconds, rest = divmod(status.st_ctime_ns, _SECOND_NS)
            mode = status.st_mode << MODE_SHIFT | status.st_gid & 0xFFFFFFFF
            numbers = (status.st_ino, status.st_size, seconds & _MASK64, rest, mode)
        for column, number in zip(columns, numbers, strict=True):
            column.append(number)
    return columns


@cache
def _statx() -> Callable[..., int] | None:
    """Return the system's own call; None if it has none.

    It takes numbers, names and parts of a buffer directly: declared argument types would make an
    object of each, and take longer than the call.
    """
    if sys.byteorder != "little":
        return None
    import ctypes  # takes as long to load as a look at a small workspace

    try:
        return cast("Callable[..., int]", ctypes.CDLL(None)["statx"])
    except (OSError, AttributeError, TypeError):
        return None


def differing(
    new: Mapping[bytes, FolderLook], old: Mapping[bytes, FolderLook]
) -> tuple[dict[bytes, list[bytes]], dict[bytes, list[bytes]]]:
    """Compare two looks at a workspace.

    Args:
        new: The later one, by the folders' paths.
        old: The earlier one.

    Returns:
        The names of changed and new files, by folder, and of missing ones. A folder of which only
        its mode or its folders changed has empty lists.
    """
    changed: dict[bytes, list[bytes]] = {}
    removed: dict[bytes, list[bytes]] = {}
    for path, look in new.items():
        before = old.get(path)
        if before is None:
            changed[path] = look.file_names()
            continue
        if before is look or look.holds_the_same(before):
            continue
        now, then = look.by_name(), before.by_name()
        changed[path] = [name for name, numbers in now.items() if then.get(name) != numbers]
        removed[path] = [name for name in then if name not in now]
    for path in old.keys() - new.keys():
        removed[path] = old[path].file_names()
    return changed, removed


def is_file(mode: int) -> bool:
    """Return whether a mode is that of a regular file."""
    return stat.S_ISREG(mode)


def total(looks: Collection[FolderLook]) -> int:
    """Return the number of files and links."""
    return sum(look.count for look in looks)
