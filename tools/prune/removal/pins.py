"""Pins: sessions that no prune removes, each an empty file in the root's private directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...base.files import FileSystem
from ...base.files.regular_file import create_file
from ..ports import LOCK_TIMEOUT_S, PruneTarget
from .environment import PruneEnvironment
from .private_directory import opened_as_it_is, opened_root, root_opened

PINS: Final = "pins"


def read_pins(fs: FileSystem, root_fd: int) -> frozenset[str]:
    """List the sessions that are pinned.

    Raises:
        OSError: There are pins and they can't be read; its text names the path.
    """
    with opened_as_it_is(fs, Path(), root_fd, PINS) as pins_fd:
        return frozenset() if pins_fd is None else frozenset(fs.listdir(pins_fd))


def pinned(root: Path, *, outside: PruneEnvironment | None = None) -> frozenset[str]:
    """List the sessions of a root that no prune removes.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    fs = (outside or PruneEnvironment()).fs
    with root_opened(fs, root) as root_fd:
        return read_pins(fs, root_fd)


def pin(
    target: PruneTarget,
    session_id: str,
    *,
    outside: PruneEnvironment | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> bool:
    """Protect a session from every prune until it is unpinned. A pin may come before its session.

    Args:
        target: Its kind and root.
        session_id: Its full id.
        outside: Time and the file system; the real ones if None.
        lock_timeout_s: How long to wait for a prune of the same root, in seconds.

    Returns:
        True if it was not pinned before.

    Raises:
        ValueError: No session of this kind can have such an id.
        PruneBusy: A prune works on the root.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The system refused.
    """
    outside = outside or PruneEnvironment()
    _require_own(target, session_id)
    with opened_root(target.root, outside, lock_timeout_s) as private:
        pins_fd = private.directory(PINS)
        if session_id in outside.fs.listdir(pins_fd):
            return False
        create_file(outside.fs, pins_fd, session_id, [])
        outside.fs.fsync(pins_fd)
    return True


def unpin(
    target: PruneTarget,
    session_id: str,
    *,
    outside: PruneEnvironment | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> bool:
    """Let prunes remove a session again.

    The arguments and errors are those of `pin`.

    Returns:
        True if it was pinned.
    """
    outside = outside or PruneEnvironment()
    _require_own(target, session_id)
    with opened_root(target.root, outside, lock_timeout_s) as private:
        pins_fd = private.existing(PINS)
        if pins_fd is None:
            return False
        try:
            outside.fs.unlink(session_id, dir_fd=pins_fd)
        except FileNotFoundError:
            return False
        outside.fs.fsync(pins_fd)
    return True


def _require_own(target: PruneTarget, session_id: str) -> None:
    if not target.owns(session_id):
        raise ValueError(f"{session_id!r} is no id of a {target.kind} session")
