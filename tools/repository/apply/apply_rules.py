"""What may be written into a checkout: decided from facts, without reading a disk."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from attrs import frozen

from ..git.git_command import IndexEntry, Leaf
from .apply_errors import BlockedPath, Obstacle
from .checkout_files import EntryKind, PathState

_HFS_IGNORED: Final = frozenset(
    chr(one)
    for first, last in ((0x200C, 0x200F), (0x202A, 0x202E), (0x206A, 0x206F), (0xFEFF, 0xFEFF))
    for one in range(first, last + 1)
)
_KINDS: Final = {
    EntryKind.UNREACHABLE: Obstacle.THROUGH_LINK,
    EntryKind.SPECIAL: Obstacle.SPECIAL_FILE,
    EntryKind.TOO_LARGE: Obstacle.TOO_LARGE,
}


@frozen(kw_only=True)
class PathFacts:
    """All facts that decide about one path.

    Attributes:
        head: Its content in the commit that is checked out.
        ours: What the merge took as the checkout's content; differs from `head` where the session
            started with uncommitted changes that are still here.
        merged: Its new content.
        index: Its entry in the index.
        standing: Its state in the checkout.
        content: Its content in the checkout as git would store it; None if it is neither file nor
            link.
        ignored: Whether the repository's rules ignore it.
        outside: Whether it is new, and outside a sparse checkout.
        conflicted: Whether both sides changed it, and the merge leaves that to the person.
    """

    head: Leaf | None
    ours: Leaf | None
    merged: Leaf | None
    index: IndexEntry | None
    standing: PathState
    content: Leaf | None
    ignored: bool = False
    outside: bool = False
    conflicted: bool = False


class Action(Enum):
    """What to do with a path."""

    WRITE = auto()
    WRITE_UNSTAGED = auto()  # the index stays: the person did not stage their part
    ALREADY = auto()
    ALREADY_STAGED = auto()  # only the index changes


def decide(facts: PathFacts, *, committing: bool) -> Action | Obstacle:
    """Return what to do with a path, or why nothing can be done."""
    staged = None if facts.index is None else facts.index.leaf
    found = _by_kind(facts) or (_in_conflict(facts, staged) if facts.conflicted else None)
    if found is not None:
        return found
    if facts.content == facts.merged:
        if not committing:
            return Action.ALREADY
        return Action.ALREADY_STAGED if staged in {facts.head, facts.merged} else Obstacle.STAGED
    if facts.content == facts.ours:
        if facts.ours == facts.head:
            return Action.WRITE if staged == facts.head else Obstacle.STAGED
        return Obstacle.UNCOMMITTED_BASE if committing else Action.WRITE_UNSTAGED
    return _unsaved(facts, staged)


def _by_kind(facts: PathFacts) -> Obstacle | None:
    if any(one is not None and one.is_submodule for one in (facts.ours, facts.merged)):
        return Obstacle.SUBMODULE
    if facts.outside or (facts.index is not None and facts.index.skipped):
        return Obstacle.SPARSE
    return _KINDS.get(facts.standing.kind)


def _in_conflict(facts: PathFacts, staged: Leaf | None) -> Action | Obstacle:
    """Decide about a path in conflict: its file and its place in the index have to be HEAD's."""
    if facts.content == facts.ours == facts.head:
        return Action.WRITE if staged == facts.head else Obstacle.STAGED
    return _unsaved(facts, staged)


def _unsaved(facts: PathFacts, staged: Leaf | None) -> Obstacle:
    """Return which work of the person would be lost."""
    if staged != facts.head:
        return Obstacle.STAGED
    if facts.head is not None:
        return Obstacle.DELETED if facts.content is None else Obstacle.MODIFIED
    return Obstacle.IGNORED if facts.ignored else Obstacle.UNTRACKED


def unsafe_name(path: bytes) -> bool:
    """Return whether some system takes a part of a path for `.git`, `.` or `..`."""
    return any(_is_unsafe(one) for one in path.split(b"/"))


def unsafe_paths(paths: Iterable[bytes]) -> list[BlockedPath]:
    """Return the paths that must not be written on any system."""
    return [
        BlockedPath(path.decode("utf-8", "surrogateescape"), Obstacle.UNSAFE_NAME)
        for path in paths
        if unsafe_name(path)
    ]


def _is_unsafe(name: bytes) -> bool:
    if name in {b"", b".", b".."} or b"\0" in name:
        return True
    text = name.decode("utf-8", "replace")
    visible = "".join(one for one in text if one not in _HFS_IGNORED).casefold()
    plain = visible.split(":")[0].rstrip(". ")
    return plain in {".git", "git~1"} or visible == ".git" or ("\\" in plain and ".git" in plain)


def case_key(path: bytes) -> str:
    """Return a key that is equal for names that some systems treat as one."""
    text = path.decode("utf-8", "surrogateescape")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def case_clashes(
    new: Iterable[bytes], present: Mapping[bytes, Iterable[bytes]]
) -> list[BlockedPath]:
    """Return the new paths of which a part differs from another name in case alone.

    Args:
        new: Paths that the checkout did not have.
        present: The names that each folder on the way will contain, without what is deleted.
    """
    found = []
    for path in new:
        clash = _clash(path, present)
        if clash is not None:
            detail = clash.decode("utf-8", "surrogateescape")
            shown = path.decode("utf-8", "surrogateescape")
            found.append(BlockedPath(shown, Obstacle.CASE_CLASH, detail))
    return found


def _clash(path: bytes, present: Mapping[bytes, Iterable[bytes]]) -> bytes | None:
    parts = path.split(b"/")
    for position, name in enumerate(parts):
        folder = b"/".join(parts[:position])
        key = case_key(name)
        for other in present.get(folder, ()):
            if other != name and case_key(other) == key:
                return folder + b"/" + other if folder else other
    return None
