"""Bringing sessions back from the trash, and keeping them from going: pins."""

from __future__ import annotations

from pathlib import Path

from ..durable import FileSystem
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from ..durable.regular_file import create_file
from .audit_log import AuditLog
from .environment import Outside
from .errors import NotInTrash, PruneRootUnusable, SessionInTheWay
from .ports import PruneTarget
from .private_directory import (
    LOCK_TIMEOUT_S,
    PINS,
    PRIVATE,
    TRASH,
    open_root,
    opened_root,
    read_pins,
    session_of,
)
from .trash import TrashRecord, forget_record, records

# ------------------------------------------------------------------------------------------ trash


def list_trash(root: Path, *, outside: Outside | None = None) -> list[TrashRecord]:
    """List the trash of a root, the oldest first; what has no record is left out.

    Args:
        root: The root.
        outside: Time and the file system; the real ones if None.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    found = [record for _, record in _in_trash(root, outside) if record is not None]
    return sorted(found, key=lambda one: (one.trashed_at, one.session_id))


def list_unrecorded(root: Path, *, outside: Outside | None = None) -> list[str]:
    """Name the sessions in the trash of a root whose record is lost or makes no sense.

    They stay there until they are restored. The arguments and errors are those of `list_trash`.
    """
    return sorted(
        session_of(hidden) for hidden, record in _in_trash(root, outside) if record is None
    )


def _in_trash(root: Path, outside: Outside | None) -> list[tuple[str, TrashRecord | None]]:
    outside = outside or Outside()
    fs = outside.fs
    root_fd = open_root(fs, root)
    try:
        fds = []
        try:
            parent = root_fd
            for name in (PRIVATE, TRASH):
                parent = fs.open(name, DIRECTORY_FLAGS, dir_fd=parent)
                fds.append(parent)
            return list(records(fs, parent))
        except FileNotFoundError:
            return []
        finally:
            for fd in fds:
                close_reader(fs, fd)
    except OSError as error:
        raise PruneRootUnusable(root, error.strerror or str(error)) from error
    finally:
        close_reader(fs, root_fd)


def restore_from_trash(
    target: PruneTarget,
    session_id: str,
    *,
    outside: Outside | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Path:
    """Bring a session back from the trash, as it was; of several of one id, the last removed.

    Args:
        target: Its kind and root.
        session_id: Its whole id.
        outside: Time, chance and the file system; the real ones if None.
        lock_timeout_s: How long to wait for a prune of the same root, in seconds.

    Returns:
        Its directory.

    Raises:
        NotInTrash: It is not there.
        SessionInTheWay: Something has its name; nothing was changed.
        PruneBusy: A prune works on the root.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The system refused.
    """
    outside = outside or Outside()
    fs = outside.fs
    root = target.root
    if not target.owns(session_id):
        raise NotInTrash(session_id, root)
    with opened_root(root, outside, lock_timeout_s) as opened:
        trash_fd = opened.private.existing(TRASH)
        hidden = None if trash_fd is None else _last_of(fs, trash_fd, session_id)
        if trash_fd is None or hidden is None:
            raise NotInTrash(session_id, root)
        try:
            fs.stat(session_id, dir_fd=opened.root_fd)
        except FileNotFoundError:
            pass
        else:
            raise SessionInTheWay(session_id, root / session_id)
        audit = AuditLog(fs, opened.private.fd, run=outside.token(), by=outside.actor())
        try:
            audit.add("restored", at=outside.clock(), kind=target.kind, session_id=session_id)
            audit.write()
        finally:
            audit.close()
        fs.rename(hidden, session_id, src_dir_fd=trash_fd, dst_dir_fd=opened.root_fd)
        fs.fsync(opened.root_fd)
        forget_record(fs, trash_fd, hidden)
        fs.fsync(trash_fd)
    return root / session_id


def _last_of(fs: FileSystem, trash_fd: int, session_id: str) -> str | None:
    fitting = [
        (record.trashed_at.timestamp() if record else 0.0, hidden)
        for hidden, record in records(fs, trash_fd)
        if session_of(hidden) == session_id
    ]
    return max(fitting)[1] if fitting else None


# ------------------------------------------------------------------------------------------- pins


def pinned(root: Path, *, outside: Outside | None = None) -> frozenset[str]:
    """Name the sessions of a root that no prune removes.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    outside = outside or Outside()
    root_fd = open_root(outside.fs, root)
    try:
        return read_pins(outside.fs, root_fd)
    except OSError as error:
        raise PruneRootUnusable(root, error.strerror or str(error)) from error
    finally:
        close_reader(outside.fs, root_fd)


def pin(
    target: PruneTarget,
    session_id: str,
    *,
    outside: Outside | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> bool:
    """Keep a session from every prune until it is unpinned. A pin may come before its session.

    Args:
        target: Its kind and root.
        session_id: Its whole id.
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
    outside = outside or Outside()
    _require_own(target, session_id)
    with opened_root(target.root, outside, lock_timeout_s) as opened:
        pins_fd = opened.private.directory(PINS)
        if session_id in outside.fs.listdir(pins_fd):
            return False
        create_file(outside.fs, pins_fd, session_id, [])
        outside.fs.fsync(pins_fd)
    return True


def unpin(
    target: PruneTarget,
    session_id: str,
    *,
    outside: Outside | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> bool:
    """Let prunes remove a session again.

    The arguments and errors are those of `pin`.

    Returns:
        True if it was pinned.
    """
    outside = outside or Outside()
    _require_own(target, session_id)
    with opened_root(target.root, outside, lock_timeout_s) as opened:
        pins_fd = opened.private.existing(PINS)
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
