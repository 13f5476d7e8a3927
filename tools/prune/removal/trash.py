"""The trash of a root: sessions that were removed and can still be brought back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import FileSystem, ReadError, read_regular_file
from ...base.files.regular_file import create_file
from ..domain import Candidate
from ..errors import NotInTrash
from ..ports import LOCK_TIMEOUT_S, PruneTarget
from ..records.audit_log import AuditLog
from .environment import Outside
from .private_directory import TRASH, opened_as_it_is, opened_root, root_opened, session_of

_SUFFIX: Final = ".json"
_DATED: Final = re.compile(r"~[^~]*\.([a-z]+)\.([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]+)")
"""How a name out of sight ends that says itself what its record would: kind, times, size."""
_MAX_RECORD_BYTES: Final = 16 << 10


@frozen(kw_only=True)
class TrashRecord:
    """What is known of a session in the trash.

    Attributes:
        session_id: The session.
        kind: Its kind.
        trashed_at: When it was removed.
        purge_after: When it may go for good.
        size_bytes: The sizes of its files.
    """

    session_id: str
    kind: str
    trashed_at: datetime
    purge_after: datetime
    size_bytes: int

    @classmethod
    def of(cls, candidate: Candidate, now: datetime, grace: timedelta) -> TrashRecord:
        """Make the record of a session that goes to the trash for a time of grace."""
        try:
            until = now + grace
        except OverflowError:  # longer than there are dates
            until = datetime.max.replace(tzinfo=UTC)
        return cls(
            session_id=candidate.session_id,
            kind=candidate.kind,
            trashed_at=now,
            purge_after=until,
            size_bytes=candidate.size_bytes,
        )


def write_record(fs: FileSystem, trash_fd: int, hidden: str, record: TrashRecord) -> None:
    """Write the record of a session that is about to be in the trash; its directory is not synced.

    Raises:
        OSError: As the system answered; nothing is left of it.
    """
    content = {
        "session_id": record.session_id,
        "kind": record.kind,
        "trashed_at": record.trashed_at.astimezone(UTC).isoformat(),
        "purge_after": record.purge_after.astimezone(UTC).isoformat(),
        "size_bytes": record.size_bytes,
    }
    data = (json.dumps(content, indent=2) + "\n").encode("ascii")
    create_file(fs, trash_fd, hidden + _SUFFIX, [data], handed_over=True)


def dated_name(hidden: str, record: TrashRecord) -> str:
    """Name a session in the trash so that it needs no record, for which a full disk has no room."""
    trashed = math.floor(record.trashed_at.timestamp())
    purge = math.ceil(record.purge_after.timestamp())
    return f"{hidden}.{record.kind}.{max(trashed, 0):x}.{max(purge, 0):x}.{record.size_bytes:x}"


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
            trashed_at=datetime.fromtimestamp(trashed, UTC),
            purge_after=datetime.fromtimestamp(purge, UTC),
            size_bytes=size,
        )
    except (ValueError, OverflowError, OSError):
        return None


def forget_record(fs: FileSystem, trash_fd: int, hidden: str) -> None:
    """Remove the record of a session that is not in the trash any more."""
    with suppress(OSError):
        fs.unlink(hidden + _SUFFIX, dir_fd=trash_fd)


def read_record(fs: FileSystem, trash_fd: int, hidden: str) -> TrashRecord | None:
    """Read the record of a session in the trash; None if there is none of it that makes sense."""
    if (named := _from_name(hidden)) is not None:
        return named
    name = hidden + _SUFFIX
    try:
        data = read_regular_file(
            fs, name, path=Path(name), max_bytes=_MAX_RECORD_BYTES, directory_fd=trash_fd
        )
        fields = json.loads(data or b"null")
        if fields["session_id"] != session_of(hidden):
            return None
        return TrashRecord(
            session_id=str(fields["session_id"]),
            kind=str(fields["kind"]),
            trashed_at=_time(fields["trashed_at"]),
            purge_after=_time(fields["purge_after"]),
            size_bytes=int(fields["size_bytes"]),
        )
    except (ReadError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _time(text: object) -> datetime:
    moment = datetime.fromisoformat(str(text))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def records(fs: FileSystem, trash_fd: int) -> Iterator[tuple[str, TrashRecord | None]]:
    """Go through the trash, by name out of sight; a record without its session is left out.

    Raises:
        OSError: It can't be listed.
    """
    names = fs.listdir(trash_fd)
    for hidden in sorted(name for name in names if not name.endswith(_SUFFIX)):
        yield hidden, read_record(fs, trash_fd, hidden)


def orphaned_records(fs: FileSystem, trash_fd: int) -> list[str]:
    """List the records whose session is not in the trash: it came back, or never went.

    Raises:
        OSError: It can't be listed.
    """
    names = set(fs.listdir(trash_fd))
    recorded = (name[: -len(_SUFFIX)] for name in names if name.endswith(_SUFFIX))
    return sorted(hidden for hidden in recorded if hidden not in names)


def expired_in_trash(
    fs: FileSystem, trash_fd: int, *, now: datetime
) -> Iterator[tuple[str, TrashRecord]]:
    """Go through what was in the trash for its time; what can't be dated stays."""
    for hidden, record in list(records(fs, trash_fd)):
        if record is not None and record.purge_after <= now:
            yield hidden, record


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
    """List the sessions in the trash of a root whose record is lost or makes no sense.

    They stay there until they are restored. The arguments and errors are those of `list_trash`.
    """
    return sorted(
        session_of(hidden) for hidden, record in _in_trash(root, outside) if record is None
    )


def _in_trash(root: Path, outside: Outside | None) -> list[tuple[str, TrashRecord | None]]:
    fs = (outside or Outside()).fs
    with root_opened(fs, root) as root_fd, opened_as_it_is(fs, root, root_fd, TRASH) as trash_fd:
        return [] if trash_fd is None else list(records(fs, trash_fd))


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
