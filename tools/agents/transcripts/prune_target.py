"""Transcripts for the prune engine: each is dated by when it was last added to.

The session stays; a conversation that goes on later is copied again from its program's files. A
stream that no hook wrote, or that is another user's, is left alone.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

from ...base.errors import AgentForgeError
from ...base.files import DirectoryLock
from ...base.files.safe_path import directory_beneath
from ...harness.session_layout import STREAMS
from ...harness.stream_port import StreamMark, StreamRow
from ...prune import (
    Candidate,
    Inspection,
    InvalidRetentionPolicy,
    PruneEnvironment,
    Reason,
    Removed,
    Skipped,
    SkipReason,
    pinned,
)
from ...prune.audit_log import AuditLog
from ...prune.removal.private_directory import opened_root
from .entries import COPIED, STREAM_PREFIX, head_of

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions
    from ...prune import Archiver

KIND: Final = "transcripts"
_SUFFIX: Final = ".log"
_LOCK_TIMEOUT_S: Final = 10.0


@runtime_checkable
class StreamRows(Protocol):
    """A store that has streams as rows, and an audit log of its own."""

    def stream_rows(self, prefix: str) -> Sequence[StreamRow]:
        """Return the streams of all sessions whose name begins with a text."""
        ...

    def remove_stream(
        self, session_id: str, stream: str, mark: StreamMark, line: Mapping[str, object]
    ) -> Reason | None:
        """Delete a stream with a line in the audit log; return why it stays, or None."""
        ...


def transcript_target(
    sessions: LocalSessions, outside: PruneEnvironment | None = None
) -> TranscriptTarget:
    """Return the transcripts of a store, whether it has them as files or as rows."""
    if isinstance(sessions, StreamRows):
        return _InRows(sessions, Path(sessions.where))
    return _InFiles(sessions, outside or PruneEnvironment())


class TranscriptTarget(ABC):
    """The transcripts of a store's sessions. Implements `prune.StoredSessions`.

    The id of one is that of its session, a slash, and the name of its stream. That of a pinned
    session stays.

    Args:
        root: Where the sessions are.
    """

    kind = KIND

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def is_empty(self) -> bool:
        """Whether there is no transcript."""
        return next(self._all(), None) is None

    def inspect(self, *, now: datetime, before: datetime | None) -> Inspection:
        """Date each transcript; see `prune.StoredSessions`."""
        candidates, skipped = [], []
        for found in self._all():
            if isinstance(found, Skipped):
                skipped.append(found)
            elif found.dated_at > now:
                detail = f"it is dated {found.dated_at.isoformat()}, which is still to come"
                skipped.append(_left(found.session_id, SkipReason.FUTURE, detail))
            elif before is None or found.dated_at <= before:
                candidates.append(found)
        return Inspection(candidates=tuple(candidates), skipped=tuple(skipped))

    def remove(
        self, candidate: Candidate, line: Mapping[str, object], *, archiver: Archiver | None
    ) -> Removed | Reason:
        """Delete a transcript that is unchanged, and record a line about it no later.

        Raises:
            InvalidRetentionPolicy: An archive is asked for; a transcript is no session.
        """
        if archiver is not None:
            raise InvalidRetentionPolicy(["archive: a transcript is archived with its session"])
        session_id, _, stream = candidate.session_id.partition("/")
        return self._removed(session_id, stream, candidate, line) or Removed()

    @abstractmethod
    def pinned(self) -> frozenset[str]:
        """Return the ids of pinned sessions."""

    def pin(self, session_id: str) -> bool:
        """Refuse: a session is pinned, with its transcripts."""
        raise InvalidRetentionPolicy([f"pin: pin the session of {session_id}"])

    def unpin(self, session_id: str) -> bool:
        """Refuse, as `pin`."""
        raise InvalidRetentionPolicy([f"unpin: unpin the session of {session_id}"])

    @abstractmethod
    def _all(self) -> Iterator[Candidate | Skipped]:
        """Yield each transcript of this person's own sessions."""

    @abstractmethod
    def _removed(
        self, session_id: str, stream: str, candidate: Candidate, line: Mapping[str, object]
    ) -> Reason | None:
        """Delete a transcript, unless it changed; return why it stays, or None."""


class _InRows(TranscriptTarget):
    """The transcripts of a database, each removed in one transaction with its line."""

    def __init__(self, store: StreamRows, root: Path) -> None:
        super().__init__(root)
        self._store = store

    def pinned(self) -> frozenset[str]:
        return frozenset(
            one.session_id for one in self._store.stream_rows(STREAM_PREFIX) if one.is_pinned
        )

    def _all(self) -> Iterator[Candidate | Skipped]:
        for one in self._store.stream_rows(STREAM_PREFIX):
            name = f"{one.session_id}/{one.stream}"
            yield _dated(name, one.head, one.mark, one.size, one.size, pinned=one.is_pinned)

    def _removed(
        self, session_id: str, stream: str, candidate: Candidate, line: Mapping[str, object]
    ) -> Reason | None:
        mark = cast(StreamMark, candidate.version)
        return self._store.remove_stream(session_id, stream, mark, line)


class _InFiles(TranscriptTarget):
    """The transcripts in the files of a base."""

    def __init__(self, sessions: LocalSessions, outside: PruneEnvironment) -> None:
        super().__init__(sessions.base_path)
        self._sessions = sessions
        self._outside = outside

    def pinned(self) -> frozenset[str]:
        return pinned(self.root, outside=self._outside)

    def _removed(
        self, session_id: str, stream: str, candidate: Candidate, line: Mapping[str, object]
    ) -> Reason | None:
        folder, outside = self._sessions.session_directory(session_id), self._outside
        fs = outside.fs
        with (  # in the order in which a prune of the sessions takes them
            opened_root(self.root, outside, _LOCK_TIMEOUT_S) as private,
            DirectoryLock(fs, folder, timeout_s=_LOCK_TIMEOUT_S) as lock,
        ):
            path = folder / STREAMS / f"{stream}{_SUFFIX}"
            found = self._look(session_id, stream, path, self.pinned())
            if isinstance(found, Skipped) or not found.is_as(candidate):
                return Reason.CHANGED
            if found.pinned:
                return Reason.PINNED
            self._record(private.fd, line)
            with directory_beneath(fs, lock.fd, [STREAMS]) as folder_fd:
                fs.unlink(path.name, dir_fd=folder_fd)
                fs.fsync(folder_fd)
        return None

    def _record(self, private_fd: int, line: Mapping[str, object]) -> None:
        """Write a durable line into the audit log of the sessions' directory."""
        outside = self._outside
        run, by = outside.token(), outside.actor()
        with closing(AuditLog(outside.fs, private_fd, run=run, by=by)) as audit:
            fields = {name: one for name, one in line.items() if name not in _OF_THE_LOG}
            audit.add("removed", at=outside.clock(), **fields)
            audit.write()

    def _all(self) -> Iterator[Candidate | Skipped]:
        session_ids = self._sessions.list_sessions()
        pins = self.pinned() if session_ids else frozenset()
        for session_id in session_ids:
            folder = self._sessions.session_directory(session_id) / STREAMS
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            for name in names if self._sessions.is_own(session_id) else ():
                if name.startswith(STREAM_PREFIX) and name.endswith(_SUFFIX):
                    stream = name.removesuffix(_SUFFIX)
                    yield self._look(session_id, stream, folder / name, pins)

    def _look(
        self, session_id: str, stream: str, path: Path, pins: frozenset[str]
    ) -> Candidate | Skipped:
        name = f"{session_id}/{stream}"
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                return _left(name, SkipReason.SYMBOLIC_LINK, "it is no regular file")
            if status.st_uid != os.geteuid():
                return _left(name, SkipReason.OTHER_OWNER, "it belongs to another user")
            entries = self._sessions.read_last(session_id, stream, 1).entries
        except (OSError, AgentForgeError) as error:
            return _left(name, SkipReason.UNREADABLE, str(error))
        version = (status.st_ino, status.st_size, status.st_mtime_ns)
        head = entries[-1].head if entries else b""
        disk = status.st_blocks * 512
        return _dated(name, head, version, status.st_size, disk, pinned=session_id in pins)


def _dated(
    name: str, head: bytes, version: object, size: int, disk: int, *, pinned: bool
) -> Candidate | Skipped:
    """Return a transcript, dated by the head of its last entry."""
    try:
        at = datetime.fromisoformat(head_of(head)[COPIED])
    except (KeyError, TypeError, ValueError):
        return _left(name, SkipReason.NO_METADATA, "its last entry does not say when it was made")
    if at.tzinfo is None:
        return _left(name, SkipReason.CORRUPTED_METADATA, "the time of its last entry has no zone")
    return Candidate(
        kind=KIND,
        session_id=name,
        dated_at=at,
        version=version,
        size_bytes=size,
        disk_bytes=disk,
        pinned=pinned,
    )


_OF_THE_LOG: Final = frozenset({"event", "run", "by"})
"""Fields of a line that the log writes itself."""


def _left(name: str, reason: SkipReason, detail: str) -> Skipped:
    return Skipped(kind=KIND, session_id=name, reason=reason, detail=detail)
