"""The sessions of a PostgreSQL store, for pruning. A `prune.StoredSessions`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from attrs import define, field

from ....base.files import DurableError, FileSystem
from ....base.files.filesystem import DIRECTORY_FLAGS
from ....base.files.trees import copy_tree
from ....harness.errors import SessionCorrupted, SessionInUse
from ....harness.session_layout import KIND, SESSION_FILE, WORKSPACE
from ....prune import Archiver, Candidate, Inspection, Reason, Removed, Skipped, SkipReason
from ....prune.removal.inspection import CLOCK_SKEW
from ..database import Connection, Database
from .session_lock import lock_key
from .session_repository import PostgresSessions
from .session_rows import checked_id

_FOUND: Final = b"""
select id, revision, state, coalesce(completed_at, updated_at), updated_at >= created_at,
    size_bytes + coalesce((select sum(octet_length(content)) from agentforge.session_attachments
        where session_id = sessions.id), 0)
    + coalesce((select sum(size_bytes) from agentforge.session_streams
        where session_id = sessions.id), 0),
    exists (select 1 from agentforge.pins where session_id = sessions.id),
    exists (select 1 from agentforge.procrastinate_jobs
        where lock = sessions.id and status = 'doing')
from agentforge.sessions
where %(before)s::timestamptz is null or coalesce(completed_at, updated_at) <= %(before)s
    or coalesce(completed_at, updated_at) > %(now)s or updated_at < created_at
"""
_LED: Final = b"""
select classid::bigint << 32 | objid::bigint from pg_locks
where locktype = 'advisory' and granted and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
"""
_LOCK: Final = b"select revision, state from agentforge.sessions where id = %s for update"
# A separate statement, so that it sees changes made during the wait for the lock.
_NEEDED: Final = b"""
select exists (select 1 from agentforge.pins where session_id = %(id)s),
    exists (select 1 from agentforge.procrastinate_jobs where lock = %(id)s and status = 'doing')
        or not pg_try_advisory_xact_lock(%(key)s)
"""
_PIN: Final = """
with held as (select 1 from agentforge.sessions where id = %(id)s for key share)
insert into agentforge.pins (session_id) select %(id)s from (select count(*) from held) every
on conflict do nothing returning session_id
"""


@define(eq=False)
class PostgresPrune:
    """The agent sessions of a store, for `prune.prune`.

    Only sessions that have ended are ever removed, and none that is pinned, that a worker holds, or
    that a job works on.

    Args:
        sessions: The sessions.
        database: Their database.
        fs: The file system that archives are written to.
        workspace_path: Returns the path of a session's workspace on this machine.
        clear_directory: Deletes a deleted session's directory on this machine.
    """

    kind = KIND
    _sessions: PostgresSessions
    _database: Database
    _fs: FileSystem = field(kw_only=True)
    _workspace_path: Callable[[str], Path] = field(kw_only=True)
    _clear_directory: Callable[[str], object] = field(kw_only=True)

    @property
    def root(self) -> Path:
        """The store's address, in place of a directory."""
        return Path(self._sessions.where)

    # -------------------------------------------------------------------------------- look

    def inspect(self, *, now: datetime, before: datetime | None) -> Inspection:
        """Return the sessions that ended before a time; see `prune.StoredSessions`."""
        candidates, skipped, skipped_bytes = [], [], 0
        led = {row[0] & (2**64 - 1) for row in self._database.all(_LED)}
        rows = self._database.all(_FOUND, {"before": before, "now": now})
        for session_id, revision, state, at, sound, size, pinned, working in rows:
            if not sound or at > now + CLOCK_SKEW:
                reason, detail = SkipReason.CORRUPTED_METADATA, "updated_at: is before created_at"
                if sound:
                    reason = SkipReason.FUTURE
                    detail = f"it is dated {at.isoformat()}, which is still to come"
                skipped.append(
                    Skipped(kind=KIND, session_id=session_id, reason=reason, detail=detail)
                )
                skipped_bytes += int(size)
                continue
            candidates.append(
                Candidate(
                    kind=KIND,
                    session_id=session_id,
                    dated_at=at,
                    version=revision,
                    size_bytes=int(size),
                    state=state,
                    removable=state in {"completed", "aborted"},
                    pinned=pinned,
                    in_use=working or (lock_key(session_id) & (2**64 - 1)) in led,
                )
            )
        return Inspection(
            candidates=tuple(candidates), skipped=tuple(skipped), skipped_bytes=skipped_bytes
        )

    # ------------------------------------------------------------------------------ remove

    def remove(
        self, candidate: Candidate, line: Mapping[str, object], *, archiver: Archiver | None
    ) -> Removed | Reason:
        """Delete a session with all that is stored of it; see `prune.StoredSessions`."""
        session_id = checked_id(candidate.session_id)
        archive = None
        with self._database.transaction() as connection:
            kept = self._kept(connection, candidate)
            if kept is not None:
                return kept
            if archiver is not None:
                archive = str(self._archived(archiver, candidate))
            self._sessions.remove(connection, session_id, {**line, "archive": archive})
        self._sessions.forget(session_id)
        return Removed(archive=archive, left=self._cleared(session_id))

    def _kept(self, connection: Connection, candidate: Candidate) -> Reason | None:
        """Lock a session, and return why it must stay; None if it may be removed."""
        session_id = candidate.session_id
        found = connection.execute(_LOCK, (session_id,)).fetchone()
        if found is None:
            return Reason.GONE
        if found[1] not in {"completed", "aborted"}:
            return Reason.STATE
        needed = connection.execute(_NEEDED, {"id": session_id, "key": lock_key(session_id)})
        pinned, working = needed.fetchone() or (False, False)
        if pinned:
            return Reason.PINNED
        if working:
            return Reason.IN_USE
        return None if found == (candidate.version, candidate.state) else Reason.CHANGED

    def _cleared(self, session_id: str) -> str | None:
        """Delete a deleted session's directory on this machine; return why it is left, or None."""
        try:
            self._clear_directory(session_id)
        except (SessionInUse, DurableError) as error:
            return f"its directory on this machine was left: {error}"
        return None

    # ----------------------------------------------------------------------------- archive

    def _archived(self, archiver: Archiver, candidate: Candidate) -> Path:
        """Archive a session as the directory that a store of files would have."""
        with tempfile.TemporaryDirectory(prefix="agentforge-archive-") as place:
            directory = Path(place) / candidate.session_id
            directory.mkdir(mode=0o700)
            self._lay_out(directory)
            with _opened(self._fs, directory) as fd:
                return archiver.archive(self._fs, fd, candidate)

    def _lay_out(self, directory: Path) -> None:
        session_id = directory.name
        document = self._sessions.read_document(session_id)
        if document is None:
            raise SessionCorrupted(
                path=self._sessions.where_is(session_id),
                faults=["it is not there"],
                session_id=session_id,
            )
        for name, content in {
            **self._sessions.read_attachments(session_id),
            SESSION_FILE: document,
        }.items():
            file = directory / name
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_bytes(content)
        workspace = self._workspace_path(session_id)
        if workspace.is_dir() and not workspace.is_symlink():
            (directory / WORKSPACE).mkdir(mode=0o700)
            with (
                _opened(self._fs, workspace) as source,
                _opened(self._fs, directory / WORKSPACE) as target,
            ):
                copy_tree(self._fs, source, target)

    # -------------------------------------------------------------------------------- pins

    def pinned(self) -> frozenset[str]:
        """Return the ids of pinned sessions; see `prune.StoredSessions`."""
        rows = self._database.all("select session_id from agentforge.pins")
        return frozenset(row[0] for row in rows)

    def pin(self, session_id: str) -> bool:
        """Protect a session from every prune; see `prune.StoredSessions`."""
        return self._database.one(_PIN, {"id": checked_id(session_id)}) is not None

    def unpin(self, session_id: str) -> bool:
        """Let prunes remove a session again; see `prune.StoredSessions`."""
        gone = self._database.one(
            "delete from agentforge.pins where session_id = %s returning session_id",
            (checked_id(session_id),),
        )
        return gone is not None


@contextmanager
def _opened(fs: FileSystem, path: Path) -> Iterator[int]:
    fd = fs.open(os.fspath(path), DIRECTORY_FLAGS)
    try:
        yield fd
    finally:
        fs.close(fd)
