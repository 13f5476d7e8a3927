"""The look at a workspace when its tree was written, so that it need not be written again.

A file with the same inode, size, mode and time of change as then is unchanged; a folder with the
same ones has the same names. A file or folder that had only just changed at the look counts as
changed in any case, as its next change may have the same time.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files import OsFileSystem
from ...base.files.regular_file import write_all
from .folder_look import FIELDS, NANOSECONDS, NEVER, SECONDS, FolderLook, Mark

FILE: Final = "workspace.memory"
_VERSION: Final = 2
_RECENT_NS: Final = 100_000_000
_RECENT_COARSE_NS: Final = 2_500_000_000
_SECOND_NS: Final = 1_000_000_000
_MARK_BYTES: Final = 8
_NO_MARK: Final = (NEVER,) * 5
_FOLDER: Final = struct.Struct("<12Q")
"""A folder: its mark, its mode, the number of files, the longest name, and the texts' lengths."""
_MOST: Final = 1 << 30


class WorkspaceMemory(NamedTuple):
    """The stored look at a workspace.

    Attributes:
        tree: Its tree.
        manifest: The parts that the tree lacks, encoded; empty if unknown.
        looks: The look at each folder.
    """

    tree: str
    manifest: bytes
    looks: Mapping[bytes, FolderLook]


def read_memory(path: Path, limits: Sequence[int]) -> WorkspaceMemory | None:
    """Read the stored look at a workspace; None if there is none.

    Args:
        path: The file.
        limits: The maximum of each measure; beyond one, the look is not used.
    """
    try:
        if path.stat().st_size > _MOST:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    whole = memoryview(data)  # nothing of it is copied twice
    if whole[:_MARK_BYTES] != b"%08x" % zlib.crc32(whole[_MARK_BYTES:]):
        return None
    end = data.find(b"\n", _MARK_BYTES)
    body = whole[end + 1 :]
    try:
        head = json.loads(data[_MARK_BYTES:end])
        if head["version"] != _VERSION or _exceed(head["measures"], limits):
            return None
        return _decoded(head["tree"], head["manifest"], head["folders"], head["numbers"], body)
    except (ValueError, TypeError, KeyError, RecursionError, struct.error):
        return None


def _exceed(measures: Sequence[int], limits: Sequence[int]) -> bool:
    return any(found > most for found, most in zip(measures, limits, strict=True))


def _decoded(
    tree: str, manifest: int, folders: int, numbers: int, body: memoryview
) -> WorkspaceMemory:
    """Split a body into the manifest, the folders, their numbers, and their texts."""
    all_numbers = array("Q")
    table = manifest + _FOLDER.size * folders
    text = table + 8 * numbers
    all_numbers.frombytes(body[table:text])
    looks = {}
    at = 0
    for given in _FOLDER.iter_unpack(body[manifest:table]):
        mark, (mode, count, longest, *lengths) = given[:5], given[5:]
        texts = []
        for length in lengths:
            texts.append(bytes(body[text : text + length]))
            text += length
        path, names, below, left_out = texts
        size = FIELDS * count
        looks[path] = FolderLook(
            *(path, mode, mark, names, all_numbers[at : at + size], longest),
            below=_parts(below),
            left_out=_parts(left_out),
        )
        at += size
    return WorkspaceMemory(tree, bytes(body[:manifest]), looks)


def _parts(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.split(b"\0")) if text else ()


def write_memory(
    path: Path,
    memory: WorkspaceMemory,
    *,
    measures: Sequence[int],
    looked_at_ns: int,
    known: Mapping[bytes, FolderLook] | None = None,
) -> None:
    """Store the look at a workspace; not durably, and without an error if it can't be stored.

    A file that a kill or a power failure left incomplete is recognised and not used.

    Args:
        path: The file.
        memory: The look.
        measures: The workspace's measures, for `read_memory` to compare with limits.
        looked_at_ns: When the look started, in nanoseconds since 1970.
        known: The looks that `read_memory` returned before; their ages are not checked again.
    """
    with suppress(OSError, OverflowError, struct.error), path.open("wb", buffering=0) as file:
        parts = _parts_of(memory, measures, looked_at_ns, known or {})
        mark = 0
        for part in parts:
            mark = zlib.crc32(part, mark)
        write_all(OsFileSystem(), file.fileno(), [b"%08x" % mark, *parts])


def _parts_of(
    memory: WorkspaceMemory,
    measures: Sequence[int],
    looked_at_ns: int,
    known: Mapping[bytes, FolderLook],
) -> Sequence[bytes]:
    folders, numbers = [], []
    texts: list[bytes] = []
    for path, found in memory.looks.items():
        look = found if known.get(path) is found else _as_kept(found, looked_at_ns)
        four = (look.path, look.names, b"\0".join(look.below), b"\0".join(look.left_out))
        lengths = (look.count, look.longest, *map(len, four))
        folders.append(_FOLDER.pack(*look.mark, look.mode, *lengths))
        numbers.append(look.numbers)
        texts += four
    head = {
        "version": _VERSION,
        "measures": list(measures),
        "tree": memory.tree,
        "manifest": len(memory.manifest),
        "folders": len(folders),
        "numbers": sum(map(len, numbers)),
    }
    body = b"".join([memory.manifest, *folders, *numbers, *texts])
    return json.dumps(head).encode() + b"\n", body


def _as_kept(look: FolderLook, looked_at_ns: int) -> FolderLook:
    """Return a look in which recent changes count as unknown."""
    until = (looked_at_ns - _RECENT_COARSE_NS) // _SECOND_NS
    column = look.column(SECONDS)
    recent = [
        at
        for at, seconds in enumerate(column if max(column, default=0) >= until else ())
        if seconds >= until
        and _is_recent(seconds, look.numbers[NANOSECONDS * look.count + at], looked_at_ns)
    ]
    mark: Mark = _NO_MARK if _is_recent(look.mark[3], look.mark[4], looked_at_ns) else look.mark
    if not recent:
        return look if mark is look.mark else replace(look, mark=mark)
    numbers = look.numbers[:]
    for at in recent:
        numbers[SECONDS * look.count + at] = NEVER
    return replace(look, mark=mark, numbers=numbers)


def _is_recent(seconds: int, nanoseconds: int, looked_at_ns: int) -> bool:
    """Return whether something may change again without a new time of change."""
    age = looked_at_ns - (seconds * _SECOND_NS + nanoseconds)
    return age < (_RECENT_NS if nanoseconds else _RECENT_COARSE_NS)
