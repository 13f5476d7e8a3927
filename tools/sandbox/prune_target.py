"""Sandbox session workspaces for the prune engine: old ones go, undatable ones are skipped.

    result = prune_sessions(older_than_hours=24, workspace_root=Path("workspace"), dry_run=True)

A workspace's date is the `updated_at` of its `.metadata.json`. Only directories named like our
session ids (a UUID, as `create_session_sandbox` writes it) are considered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from ..base.clock import Clock
from ..base.files import FileSystem
from ..base.files.tree_removal import is_discarded
from ..base.identifiers import is_uuid
from ..prune import (
    Archiver,
    Dated,
    Decision,
    Disposal,
    InvalidRetentionPolicy,
    PruneEnvironment,
    PruneObserver,
    PruneResult,
    PruneRootUnusable,
    PruneSource,
    RetentionPolicy,
    Skipped,
    SkipReason,
    TarArchiver,
    Undatable,
    prune,
    restore_archive,
)
from ..prune.ports import Record
from .errors import CorruptedMetadata, UnreadableMetadata
from .sandbox_logging import EventLogger, SandboxLogger
from .session_workspaces.session_directory import ABANDONED_AFTER, DEFAULT_ROOT, INCOMING_PREFIX
from .session_workspaces.session_metadata_file import METADATA_NAME, read_times

KIND: Final = "sandbox"


class _Unnamed(float):
    """A default age, as opposed to one that the caller passed."""


DEFAULT_AGE_HOURS: Final[float] = _Unnamed(24.0)
"""The age, in hours, from which sessions are deleted by default."""

_INCOMING: Final = re.compile(rf"{re.escape(INCOMING_PREFIX)}[0-9a-f]{{1,32}}")


@frozen
class SandboxTarget:
    """The workspaces of sandbox sessions under a root. Implements `prune.PruneTarget`."""

    root: Path = DEFAULT_ROOT
    kind: str = KIND
    guards: Sequence[str] = ()

    def owns(self, name: str) -> bool:
        """Return whether a name is a session id as `create_session_sandbox` writes it."""
        return is_uuid(name)

    def stray_age(self, name: str) -> timedelta | None:
        """Return the age from which a leftover counts as abandoned; None if it is not one."""
        if is_discarded(name):
            return timedelta(0)
        return ABANDONED_AFTER if _INCOMING.fullmatch(name) else None

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable:
        """Return a workspace's date from its metadata."""
        try:
            times = read_times(fs, session_fd, session_id)
        except UnreadableMetadata as error:
            return Undatable(SkipReason.UNREADABLE, error.reason)
        except CorruptedMetadata as error:
            return Undatable(SkipReason.CORRUPTED_METADATA, error.reason)
        if times is None:
            return Undatable(SkipReason.NO_METADATA, "it has no metadata")
        created, updated, status = times
        if updated < created:
            detail = "its metadata has it used before it was created"
            return Undatable(SkipReason.CORRUPTED_METADATA, detail)
        record = None if status is None else Record(METADATA_NAME, status)
        return Dated(at=updated, version=updated, record=record)


class PruneEvents(PruneObserver):
    """Logs the events of a prune to a sandbox logger."""

    def __init__(self, log: SandboxLogger) -> None:
        """Log them to `log`."""
        self.log: Final = log
        self._log = log.settled()
        self._logs_info = self._log.logs_info  # building ten thousand unlogged events takes time

    def started(self, target: PruneSource, policy: RetentionPolicy, *, dry_run: bool) -> None:
        """Log the start of a prune."""
        self._log.info(
            "session.prune.started",
            threshold=policy.max_age_hours,
            workspace_root=os.fspath(target.root),
            dry_run=dry_run,
        )

    def skipped(self, skipped: Skipped) -> None:
        """Log that a session is left alone."""
        self._log.warning(
            "session.prune.skipped",
            session_id=skipped.session_id,
            reason=str(skipped.reason),
            detail=skipped.detail,
        )

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        """Log that a session is to be deleted."""
        if not self._logs_info:
            return
        candidate = decision.candidate
        self._log.info(
            "session.prune.candidate",
            session_id=candidate.session_id,
            age_hours=round(age_hours, 3),
            size_bytes=candidate.size_bytes,
            reasons=[str(reason) for reason in decision.reasons],
        )

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """Log that a session was deleted."""
        if self._logs_info:
            self._log.info(
                "session.prune.deleted",
                session_id=session_id,
                size_bytes=size_bytes,
                trashed=trashed,
            )

    def failed(self, session_id: str, *, error: str) -> None:
        """Log that a session was not, or not completely, deleted."""
        self._log.warning("session.prune.failed", session_id=session_id, error=error)

    def completed(self, result: PruneResult) -> None:
        """Log the end of a prune."""
        self._log.info(
            "session.prune.completed",
            deleted_count=len(result.deleted_sessions),
            skipped_count=len(result.skipped_sessions),
            error_count=len(result.errors),
            reclaimed_bytes=result.reclaimed_bytes,
            swept_count=len(result.swept),
            due_count=result.due,
            unmet=[str(one) for one in result.unmet],
            duration=round(result.duration_s, 4),
            dry_run=result.dry_run,
        )


def prune_events(
    kind: str | None = None, logger: SandboxLogger | EventLogger | None = None
) -> PruneEvents:
    """Create an observer that logs `session.prune.started` and the other prune events.

    Args:
        kind: The kind of sessions, a field of every event; left out if None.
        logger: Logs the events; the library's own if None.
    """
    log = SandboxLogger.of(logger)
    return PruneEvents(log if kind is None else log.bind(kind=kind))


def prune_sessions(
    older_than_hours: float = DEFAULT_AGE_HOURS,
    workspace_root: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    policy: RetentionPolicy | None = None,
    max_deletions: int | None = None,
    trash_for: timedelta | None = None,
    archiver: Archiver | None = None,
    outside: PruneEnvironment | None = None,
) -> PruneResult:
    """Delete the workspaces of sandbox sessions that have not been used for some time.

    A workspace is skipped, and never deleted, if its metadata is missing or invalid, if it belongs
    to another user or has something mounted in it; also if an execution is using it, or if it is
    pinned or dated in the future. An unreadable workspace is an error. Links are never followed.

    Args:
        older_than_hours: Delete sessions whose last success is longer ago than this; hours, 0 or
            more. With 0, all that are dated. Refused together with `policy`, which has its own age.
        workspace_root: The directory the sessions' workspaces are in; `workspace` if None.
        dry_run: Only return what would be done.
        logger: Logs `session.prune.started`, `.candidate`, `.skipped`, `.deleted`, `.failed` and
            `.completed`; structlog's own if None.
        policy: Other rules than age, or several.
        max_deletions: Delete at most this many, the oldest; a smaller limit of the policy prevails.
        trash_for: Hold deleted sessions in the root's trash for this long; None deletes at once.
        archiver: Archives each session before its deletion.
        outside: Time, chance and the file system; the real ones if None.

    Returns:
        What was deleted, what was not, and why; its `str()` is a summary for people. If another
        prune held the root for the full wait, the result is `busy` and nothing was deleted.

    Raises:
        InvalidPolicy: A number is out of range, or both an age and a policy are given; nothing was
            deleted.
        PruneRootMissing: There is no such root.
        PruneRootUnusable: The root is not a directory, or can't be read or written; nothing was
            deleted.
    """
    if policy is None:
        if older_than_hours is None:
            raise InvalidRetentionPolicy(
                ["older_than_hours: expected a number, 0 or more, got None"]
            )
        policy = RetentionPolicy(max_age_hours=older_than_hours)
    elif older_than_hours is not DEFAULT_AGE_HOURS:
        raise InvalidRetentionPolicy(
            [f"older_than_hours: {older_than_hours!r} beside a policy; give one of the two"]
        )
    if max_deletions is not None:
        given = policy.max_deletions
        most = max_deletions if given is None else min(max_deletions, given)
        policy = evolve(policy, max_deletions=most)
    return prune(
        SandboxTarget(_root(workspace_root)),
        policy,
        dry_run=dry_run,
        disposal=Disposal(grace=trash_for, archiver=archiver),
        observer=prune_events(logger=logger),
        outside=outside,
    )


def _root(workspace_root: str | os.PathLike[str] | None) -> Path:
    """Return the root; an empty string, such as from an unset variable, counts as None."""
    if workspace_root is None:
        return DEFAULT_ROOT
    if not os.fspath(workspace_root):
        raise PruneRootUnusable(Path(), "workspace_root is empty, which names no directory")
    return Path(workspace_root)


def archive_sessions(
    older_than_hours: float,
    archive_path: str | os.PathLike[str],
    workspace_root: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    level: int = 3,
    clock: Clock | None = None,
    outside: PruneEnvironment | None = None,
) -> PruneResult:
    """Move the workspaces of old sandbox sessions into compressed archives, one for each.

    An archive is read back and verified before its workspace is deleted. A session that can't be
    archived is not deleted, and is in the result's `errors`. `restore_session` restores one.

    Args:
        older_than_hours: Archive sessions whose last success is longer ago than this; hours.
        archive_path: The directory the archives are written to; created if missing.
        workspace_root: The directory the sessions' workspaces are in; `workspace` if None.
        dry_run: Only return what would be done.
        logger: Logs the events of a prune.
        level: The compression level of zstd, 1 to 19.
        clock: Returns the time for the archives' names; the system's if None.
        outside: Time, chance and the file system; the real ones if None.

    Returns:
        What was archived; `archives` has the file of each session.

    Raises:
        PruneError: As by `prune_sessions`.
    """
    outside = outside or PruneEnvironment()
    archiver = TarArchiver(
        directory=Path(archive_path),
        level=level,
        clock=clock or outside.clock,
        token=outside.token,
    )
    return prune_sessions(
        older_than_hours, workspace_root, dry_run, logger, archiver=archiver, outside=outside
    )


def restore_session(
    archive: str | os.PathLike[str],
    workspace_root: str | os.PathLike[str] | None = None,
    *,
    outside: PruneEnvironment | None = None,
) -> Path:
    """Restore a sandbox session from an archive of `archive_sessions`; the archive remains.

    Its metadata has the old date: a prune by age would delete it again.

    Args:
        archive: The `.tar.zst` file, with its `.sha256` beside it.
        workspace_root: The directory the sessions' workspaces are in; `workspace` if None.
        outside: Time, chance and the file system; the real ones if None.

    Returns:
        The session's workspace.

    Raises:
        InvalidArchive: The file is not an archive, or is damaged; nothing was written.
        SessionInTheWay: The session has a workspace; nothing was changed.
        PruneError: As by `prune_sessions`.
    """
    target = SandboxTarget(_root(workspace_root))
    return restore_archive(Path(archive), target, outside=outside)
