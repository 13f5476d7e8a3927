"""Shared by the executors: the folder that a phase works in, and its result."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...harness import PhaseResult, SessionNotFound
from ...harness.session_ports import LocalSessions

if TYPE_CHECKING:
    from ...jail import JailResult
    from ...sandbox import SandboxResult
    from ...sandbox.workspaces.workspace_tree import Snapshot


def session_workspace(store: LocalSessions, session_id: str) -> Path:
    """Return a session's workspace, creating it if needed.

    Raises:
        SessionNotFound: There is no such session.
        InvalidSessionId: The id is malformed.
        OSError: The system refused.
    """
    workspace = store.workspace_path(session_id)
    try:
        with suppress(FileExistsError):
            os.mkdir(workspace, 0o700)
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=store.where) from None
    return workspace.parent.resolve() / workspace.name  # survives a change of directory


def phase_result(result: SandboxResult) -> PhaseResult:
    """Convert a sandbox result into the harness's form."""
    return PhaseResult(
        success=result.success,
        exit_code=result.exit_code,
        trapped=result.trapped,
        stdout=result.stdout,
        stderr=result.stderr,
        truncated=result.truncated,
        duration_s=result.duration_s,
        fuel_consumed=result.fuel_consumed,
        files_created=result.files_created,
        files_modified=result.files_modified,
        files_deleted=result.files_deleted,
        workspace=result.workspace_path,
        quota_exceeded=cast("tuple[str, ...]", result.metadata["quota_exceeded"]),
        lost_writes=tuple(f"{lost.path} ({lost.errno})" for lost in result.lost_writes),
    )


def jail_phase_result(
    result: JailResult, changes: tuple[list[str], list[str], list[str]], workspace: Path | None
) -> PhaseResult:
    """Convert a jail result into the harness's form.

    Args:
        result: The result.
        changes: The files created, modified and deleted.
        workspace: The folder on the host, or None if it is temporary.
    """
    created, modified, deleted = changes
    return PhaseResult(
        success=result.success,
        exit_code=result.exit_code,
        trapped=None if result.stopped is None else result.stopped.value,
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
        truncated=result.stopped is not None and result.stopped.value == "output",
        duration_s=result.usage.seconds,
        files_created=created,
        files_modified=modified,
        files_deleted=deleted,
        workspace=workspace,
    )


def changes_between(before: Snapshot, after: Snapshot) -> tuple[list[str], list[str], list[str]]:
    """Return the files created, modified and deleted between two snapshots, sorted.

    A file whose name is not UTF-8 is omitted: no record can name it.
    """
    old, new = before.files, after.files
    return (
        _named(path for path in new if path not in old),
        _named(path for path in new if path in old and new[path] != old[path]),
        _named(path for path in old if path not in new),
    )


def _named(paths: Iterable[bytes]) -> list[str]:
    found = []
    for path in paths:
        try:
            found.append(path.decode("utf-8"))
        except UnicodeDecodeError:
            continue
    return sorted(found)
