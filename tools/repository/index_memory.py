"""What the files of a workspace looked like when git's index took them, which it need not again.

Git looks at each file that it is given; a scan has just looked at all of them. A file whose inode,
size and time of change are those that it had when the index took it is not given to git again. It
holds for one index alone, which its checksum names; without it, or where it can't be read, all
files are given. A file that had just changed when it was looked at is given again in any case, as
its next change may have the same time.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, cast

from attrs import frozen

FILE: Final = "index.memory"
_HEAD: Final = b"agentforge index memory 1"
_CHECKSUM: Final = 20
_FIELDS: Final = 3
_NEVER: Final = 2**64 - 1
"""The time of change of a file that is to be given to git again."""
_RECENT_NS: Final = 100_000_000
_RECENT_COARSE_NS: Final = 2_500_000_000
_SECOND_NS: Final = 1_000_000_000

Look = tuple[int, int, int]
"""What a look at a file says: inode, size in bytes, time of change in nanoseconds."""


@frozen(slots=False, eq=False)
class IndexMemory:
    """What an index took.

    Attributes:
        tree: The tree of the index.
        names: The paths of the files, a NUL between two.
        numbers: How each looked, in the same order.
    """

    tree: str
    names: bytes
    numbers: array[int]

    def is_all(self, looks: Mapping[bytes, Look]) -> bool:
        """Return whether just these files looked so; false too where only the order differs."""
        if self.names != b"\0".join(looks):
            return False
        try:
            return self.numbers == array("Q", chain.from_iterable(looks.values()))
        except OverflowError:
            return False

    @cached_property
    def looks(self) -> Mapping[bytes, Look]:
        """How each file looked, by path."""
        names = self.names.split(b"\0") if self.numbers else []
        looks = zip(*(self.numbers[start::_FIELDS] for start in range(_FIELDS)), strict=True)
        return dict(zip(names, cast("Iterable[Look]", looks), strict=True))


def checksum_of(index: Path) -> bytes:
    """Return the end of an index, which is its checksum; empty where there is none."""
    try:
        with index.open("rb") as file:
            file.seek(-_CHECKSUM, os.SEEK_END)
            return file.read()
    except OSError:
        return b""


def read_memory(path: Path, checksum: bytes) -> IndexMemory | None:
    """Read what the index with this checksum took; None where it is not known."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, _, rest = data.partition(b"\n")
    try:
        version, mark, tree, count, size = head.rsplit(b" ", 4)
        names = int(size)
        numbers = array("Q")
        numbers.frombytes(rest[names:])
    except ValueError:
        return None
    found = rest[:names]
    there = found.count(b"\0") + 1 if numbers else 0
    complete = there == int(count) and len(numbers) == _FIELDS * there
    if version != _HEAD or not checksum or mark != checksum.hex().encode() or not complete:
        return None
    return IndexMemory(tree.decode("ascii", "replace"), found, numbers)


def write_memory(
    path: Path,
    *,
    checksum: bytes,
    tree: str,
    looks: Mapping[bytes, Look],
    looked_at_ns: int,
) -> None:
    """Keep what an index took; not durably, and nothing where that can't be done.

    What a kill leaves of it never says of a file that has changed that it has not.

    Args:
        path: Where.
        checksum: The index's.
        tree: Its tree.
        looks: How each file looked, by path.
        looked_at_ns: When the look began, in nanoseconds since 1970.
    """
    with suppress(OSError, OverflowError):
        path.write_bytes(_document(checksum, tree, looks, looked_at_ns))


def _document(checksum: bytes, tree: str, looks: Mapping[bytes, Look], looked_at_ns: int) -> bytes:
    until = looked_at_ns - _RECENT_COARSE_NS
    numbers = array("Q", chain.from_iterable(looks.values()))
    for at in range(2, len(numbers), _FIELDS):
        if numbers[at] > until and _is_recent(numbers[at], looked_at_ns):
            numbers[at] = _NEVER
    names = b"\0".join(looks)
    head = b"%b %b %b %d %d\n" % (
        *(_HEAD, checksum.hex().encode(), tree.encode(), len(looks), len(names)),
    )
    return head + names + numbers.tobytes()


def _is_recent(changed_ns: int, looked_at_ns: int) -> bool:
    """Return whether a file may change again without a new time of change."""
    whole_seconds = changed_ns % _SECOND_NS == 0
    return looked_at_ns - changed_ns < (_RECENT_COARSE_NS if whole_seconds else _RECENT_NS)
