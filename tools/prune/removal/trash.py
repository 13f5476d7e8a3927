"""The trash of a root: sessions that were removed and can still be restored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import FileSystem
from ..audit_log import AuditLog
from ..domain import Candidate
from ..errors import NotInTrash
from ..ports import LOCK_TIMEOUT_S, PruneTarget
from .environment import PruneEnvironment
from .private_directory import TRASH, opened_as_it_is, opened_root, root_opened, session_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DATED: Final = re.compile(r"~[^~]*\.([a-z]+)\.([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]+)")
"""The end of a name in the trash: kind, the two times in microseconds since 1970, size."""


@frozen(kw_only=True)
class TrashRecord:
    """A session in the trash, as its name there describes it.

    Attributes:
        session_id: The session.
        kind: Its kind.
        trashed_at: When it was removed.
        purge_after: When it may be deleted for good.
        size_bytes: The sum of the sizes of its files.
    """

    session_id: str
    kind: str
    trashed_at: datetime
    purge_after: datetime
    size_bytes: int


def dated_name(hidden: str, candidate: Candidate, now: datetime, grace: timedelta) -> str:
    """Return a session's name in the trash, where it stays for a time of grace.

    The name holds the complete record, so nothing has to be written on a full disk.
    """
    try:
        until = now + grace
    except OverflowError:  # later than the latest date
        until = datetime.max.replace(tzinfo=UTC)
    times = ".".join(f"{(at - _EPOCH) // _MICROSECOND:x}" for at in (now, until))
    return f"{hidden}.{candidate.kind}.{times}.{candidate.size_bytes:x}"


def _from_name(hidden: str) -> TrashRecord | None:
    found = _DATED.search(hidden)
    if found is None or found.end() != len(hidden):
        return None
    kind, *numbers = found.groups()
    trashed, purge, size = (int(number, 16) for number in numbers)
    try:
        return TrashRecord(
            session_id=session_of(hidden),
            kind=kind,
            trashed_at=_EPOCH + trashed * _MICROSECOND,
            purge_after=_EPOCH + purge * _MICROSECOND,
            size_bytes=size,
        )
    except OverflowError:
        return None


def records(fs: FileSystem, trash_fd: int) -> Iterator[tuple[str, TrashRecord | None]]:
    """Yield the trash's names out of sight, each with its record; None if the name holds none.

    Raises:
        OSError: It can't be listed.
    """
    for hidden in sorted(fs.listdir(trash_fd)):
        yield hidden, _from_name(hidden)


def expired_in_trash(
    fs: FileSystem, trash_fd: int, *, now: datetime
) -> Iterator[tuple[str, TrashRecord]]:
    """Yield the sessions whose time in the trash is over; those without a date stay."""
    for hidden, record in records(fs, trash_fd):
        if record is not None and record.purge_after <= now:
            yield hidden, record


def list_trash(root: Path, *, outside: PruneEnvironment | None = None) -> list[TrashRecord]:
    """List the trash of a root, the oldest first; sessions without a date there are left out.

    Args:
        root: The root.
        outside: Time and the file system; the real ones if None.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    found = [record for _, record in _in_trash(root, outside) if record is not None]
    return sorted(found, key=lambda one: (one.trashed_at, one.session_id))


def list_unrecorded(root: Path, *, outside: PruneEnvironment | None = None) -> list[str]:
    """List the sessions in the trash of a root whose names there do not date them.

    They stay there until they are restored. The arguments and errors are those of `list_trash`.
    """
    return sorted(
        session_of(hidden) for hidden, record in _in_trash(root, outside) if record is None
    )


def _in_trash(root: Path, outside: PruneEnvironment | None) -> list[tuple[str, TrashRecord | None]]:
    fs = (outside or PruneEnvironment()).fs
    with root_opened(fs, root) as root_fd, opened_as_it_is(fs, root, root_fd, TRASH) as trash_fd:
        return [] if trash_fd is None else list(records(fs, trash_fd))


def restore_from_trash(
    target: PruneTarget,
    session_id: str,
    *,
    outside: PruneEnvironment | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Path:
    """Restore a session from the trash, as it was; of several with one id, the last removed.

    Args:
        target: Its kind and root.
        session_id: Its full id.
        outside: Time, randomness and the file system; the real ones if None.
        lock_timeout_s: How long to wait for a prune of the same root, in seconds.

    Returns:
        Its directory.

    Raises:
        NotInTrash: It is not in the trash.
        SessionInTheWay: Something has its name; nothing was changed.
        PruneBusy: A prune works on the root.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The system refused.
    """
    outside = outside or PruneEnvironment()
    fs = outside.fs
    root = target.root
    if not target.owns(session_id):
        raise NotInTrash(session_id, root)
    with opened_root(root, outside, lock_timeout_s) as private:
        trash_fd = private.existing(TRASH)
        hidden = None if trash_fd is None else _last_of(fs, trash_fd, session_id)
        if trash_fd is None or hidden is None:
            raise NotInTrash(session_id, root)
        private.require_free(session_id)
        audit = AuditLog(fs, private.fd, run=outside.token(), by=outside.actor())
        with closing(audit):
            audit.add("restored", at=outside.clock(), kind=target.kind, session_id=session_id)
            audit.write()
        fs.rename(hidden, session_id, src_dir_fd=trash_fd, dst_dir_fd=private.root_fd)
        fs.fsync(private.root_fd)
        fs.fsync(trash_fd)
    return root / session_id


def _last_of(fs: FileSystem, trash_fd: int, session_id: str) -> str | None:
    fitting = [
        (record.trashed_at.timestamp() if record else 0.0, hidden)
        for hidden, record in records(fs, trash_fd)
        if session_of(hidden) == session_id
    ]
    return max(fitting)[1] if fitting else None
