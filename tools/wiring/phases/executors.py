"""The executors of phases by name, ours or a plugin's, and what ours share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from attrs import frozen

from ...base.errors import ErrorKind
from ...base.plugins import Register
from ...harness import HarnessError, PhaseExecutor, PhaseResult, SessionNotFound
from ...harness.session_ports import LocalSessions

if TYPE_CHECKING:
    from ...jail import JailPolicy, JailResult
    from ...sandbox import ExecutionPolicy, SandboxResult
    from ...sandbox.workspaces.workspace_tree import TreeSnapshot

EXECUTORS: Final = Register(
    "executors",
    {
        "sandbox": f"{__package__}.sandbox_executor:make_executor",
        "jail": f"{__package__}.jail_executor:make_executor",
    },
)
"""Factories of executors: called with the store and `ExecutorParameters`, each returns a
`harness.PhaseExecutor`. A plugin is itself responsible for how well its executor seals code."""


class UnknownExecutor(HarnessError, kind=ErrorKind.USAGE):
    """There is no executor of that name; nothing was run."""

    message = """there is no executor {executor!r}; there are {known:,}. Nothing was run; name one
    of them, or install the package that adds it."""
    executor: str
    known: Sequence[str]


@frozen(kw_only=True)
class ExecutorParameters:
    """The parameters of a new executor.

    Attributes:
        policy: Limits of what runs in the sandbox; the sandbox's default if None.
        jail: Limits and visible paths of jailed commands; the jail's default if None.
    """

    policy: ExecutionPolicy | None = None
    jail: JailPolicy | None = None


def make_executor(name: str, store: LocalSessions, settings: ExecutorParameters) -> PhaseExecutor:
    """Create the executor of a name; nothing runs yet.

    Raises:
        UnknownExecutor: There is no executor of this name.
        PluginUnusable: The plugin's package is broken.
    """
    found = EXECUTORS.find(name)
    if found is None:
        raise UnknownExecutor(name, EXECUTORS.names())
    made: PhaseExecutor = found.load()(store, settings)
    return made


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


def changes_between(
    before: TreeSnapshot, after: TreeSnapshot
) -> tuple[list[str], list[str], list[str]]:
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
