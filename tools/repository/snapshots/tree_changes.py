"""What differs between two trees, by file, with counts of lines and, where wanted, the lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from .snapshot_repository import LockedRepository

MAX_PATCH_BYTES: Final = 64 << 20
"""How large a patch may be; a larger one is a `GitOutputTooLarge`."""
_KINDS: Final = {b"A": "added", b"D": "deleted", b"M": "modified", b"T": "type changed"}


@frozen
class FileChange:
    """What became of one file.

    Attributes:
        path: Its path, as bytes.
        kind: "added", "deleted", "modified" or "type changed".
        old_mode: Git's mode of it before, as "100644"; "000000" where it was not there.
        new_mode: The same after.
        insertions: How many lines it gained; None for a binary file.
        deletions: How many it lost; None for a binary file.
    """

    path: bytes
    kind: str
    old_mode: str
    new_mode: str
    insertions: int | None
    deletions: int | None


@frozen
class TreeChanges:
    """What differs between two trees.

    Attributes:
        files: The files that differ, by path.
        patch: The lines that differ, as git writes them; empty where they were not wanted.
    """

    files: tuple[FileChange, ...]
    patch: bytes = b""

    @property
    def insertions(self) -> int:
        """How many lines were gained."""
        return sum(one.insertions or 0 for one in self.files)

    @property
    def deletions(self) -> int:
        """How many lines were lost."""
        return sum(one.deletions or 0 for one in self.files)


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
    """Read `--raw --numstat -z`: two fields for each file, then one for each file."""
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
        FileChange(path, kind, old, new, *lines.get(path, (None, None)))
        for path, (kind, old, new) in sorted(modes.items())
    )


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
