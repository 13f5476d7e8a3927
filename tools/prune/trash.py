"""The trash of a root: sessions that were removed and can still be brought back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import frozen

from ..durable import FileSystem, ReadError, read_regular_file
from ..durable.regular_file import create_file
from .private_directory import session_of

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


@frozen(kw_only=True)
class Leftovers:
    """What others left to be finished, by names out of sight.

    Attributes:
        coming: Sessions that were not all restored.
        going: Sessions that were not all removed.
        expired: What was in the trash for its time, with its records.
        orphaned: Records in the trash without their session.
        strays: Names in the root of what was left half made or half deleted.
    """

    coming: Sequence[str]
    going: Sequence[str]
    expired: Sequence[tuple[str, TrashRecord]]
    orphaned: Sequence[str]
    strays: Sequence[str] = ()


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
    """Name the records whose session is not in the trash: it came back, or never went.

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


__all__ = [
    "TrashRecord",
    "expired_in_trash",
    "forget_record",
    "orphaned_records",
    "read_record",
    "records",
    "write_record",
]
