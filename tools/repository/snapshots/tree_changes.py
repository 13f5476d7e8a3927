"""The differences between two trees, by file, with counts of lines and, on request, the lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ...base.files.trees import FileChange, TreeChanges
from .snapshot_repository import LockedRepository

MAX_PATCH_BYTES: Final = 64 << 20
"""The maximum size of a patch; a larger one is a `GitOutputTooLarge`."""
_KINDS: Final = {b"A": "added", b"D": "deleted", b"M": "modified", b"T": "type changed"}


def changes_between(
    locked: LockedRepository,
    before: str,
    after: str,
    *,
    patch: bool = False,
    paths: Sequence[str] = (),
) -> TreeChanges:
    """Compare two trees or commits; see `Snapshots.changes`."""
    compared = ("-r", "--no-renames", "--end-of-options", before, after)
    wanted = ("--", *paths) if paths else ()
    output = locked.git("diff-tree", "-z", "--raw", "--numstat", *compared, *wanted).stdout
    text = b""
    if patch:
        shown = ("--patch", "--no-color", "--full-index", *compared, *wanted)
        text = locked.git("diff-tree", *shown, max_output=MAX_PATCH_BYTES).stdout
    return TreeChanges(_parsed(output), text)


def _parsed(output: bytes) -> tuple[FileChange, ...]:
    """Parse `--raw --numstat -z`: two fields for each file, then one for each file."""
    modes: dict[bytes, tuple[str, str, str]] = {}
    lines: dict[bytes, tuple[int | None, int | None]] = {}
    parts = iter(output.split(b"\0")[:-1])
    for part in parts:
        if part.startswith(b":"):
            old, new, _, _, status = part[1:].split(b" ")
            kind = _KINDS.get(status[:1], "modified")
            modes[next(parts)] = (kind, old.decode(), new.decode())
        else:
            added, removed, path = part.split(b"\t", 2)
            lines[path] = (_count(added), _count(removed))
    return tuple(
        FileChange(os.fsdecode(path), kind, old, new, *lines.get(path, (None, None)))
        for path, (kind, old, new) in sorted(modes.items())
    )


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
