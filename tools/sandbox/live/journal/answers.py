"""How a journal notes what a system call returned."""

from __future__ import annotations

import os
from typing import Any, Final, Self

from ...host.files.files import refusal
from .notes import NoteReader, NoteWriter

_LONGEST_NAME: Final = 255
_MOST_ERRNO: Final = 4095
_LINK: Final = 2


def put_nothing(_writer: NoteWriter, _found: object) -> None:
    """Note that a call returned nothing."""


def get_nothing(_reader: NoteReader) -> Any:
    """Return nothing."""


def put_names(writer: NoteWriter, names: dict[tuple[int, int], int]) -> None:
    """Note counts by device and inode."""
    writer.number(len(names))
    for (device, inode), count in names.items():
        for each in (device, inode, count):
            writer.number(each)


def get_names(reader: NoteReader) -> dict[tuple[int, int], int]:
    """Read what `put_names` noted."""
    count = reader.number()
    return {(reader.number(), reader.number()): reader.number() for _ in range(count)}


def raise_noted(reader: NoteReader) -> None:
    """Raise the error that a call ended with, if it did."""
    number = reader.number(_MOST_ERRNO)
    if number:
        raise refusal(number)


class NotedEntry:
    """A directory's entry, as `os.DirEntry` has it; a link is not followed."""

    __slots__ = ("_inode", "_kind", "name")

    def __init__(self, name: str, inode: int, kind: int) -> None:
        self.name = name
        self._inode = inode
        self._kind = kind

    @classmethod
    def of(cls, entry: os.DirEntry[str]) -> Self:
        """Return what a journal notes of an entry."""
        kinds = (
            entry.is_file(follow_symlinks=False),
            entry.is_dir(follow_symlinks=False),
            entry.is_symlink(),
        )
        return cls(entry.name, entry.inode(), kinds.index(True) if True in kinds else len(kinds))

    def inode(self) -> int:
        """Return its inode."""
        return self._inode

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a regular file."""
        del follow_symlinks
        return self._kind == 0

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a directory."""
        del follow_symlinks
        return self._kind == 1

    def is_symlink(self) -> bool:
        """Return whether it is a link."""
        return self._kind == _LINK

    @staticmethod
    def put(writer: NoteWriter, entry: NotedEntry | None) -> None:
        """Note an entry, or the end of the listing."""
        writer.bytes(b"" if entry is None else os.fsencode(entry.name))
        if entry is not None:
            writer.number(entry._inode)
            writer.byte(entry._kind)

    @classmethod
    def get(cls, reader: NoteReader) -> Self | None:
        """Read what `put` noted."""
        name = reader.bytes(_LONGEST_NAME)
        return cls(os.fsdecode(name), reader.number(), reader.byte()) if name else None
