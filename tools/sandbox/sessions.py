"""Sandboxes that belong to sandbox sessions: one persistent workspace for each.

    session_id, sandbox = create_session_sandbox(workspace_root=Path("workspace"))
    sandbox.execute("open('state.txt', 'w').write('1')")
    ...
    get_session_sandbox(session_id).execute("print(open('state.txt').read())")
    delete_session_workspace(session_id)

There is no registry: a sandbox session is its directory under the workspace root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Self, Unpack

from attrs import frozen

from ..base.clock import Clock, utc_now
from ..base.files.filesystem import DIRECTORY_FLAGS
from ..base.identifiers import new_uuid4
from ..prune import prepare_root
from .errors import WorkspaceError
from .executor import RuntimeType, SandboxOptions, SandboxSettings, checked_settings
from .guest_paths import PROGRAM_NAME
from .policy import ExecutionPolicy
from .result import SandboxResult
from .sandbox import Sandbox
from .sandbox_logging import EventLogger, SandboxLogger
from .session_workspaces.session_deletion import sweep_now_and_then
from .session_workspaces.session_directory import (
    DEFAULT_ROOT,
    INCOMING_PREFIX,
    OS_FILES,
    SessionFileSystem,
    close_quietly,
    random_token,
)
from .session_workspaces.session_metadata import ExecutionRecord, format_time
from .session_workspaces.session_metadata_file import (
    METADATA_NAME,
    create_metadata,
    touch_session_metadata,
)
from .session_workspaces.session_paths import validate_session_id
from .workspaces.workspace import ensure_workspace

_ATTEMPTS: Final = 8
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


@frozen
class _Session:
    """A sandbox session's workspace in its root; creates it and updates its metadata."""

    session_id: str
    root: Path
    log: SandboxLogger
    clock: Clock
    fs: SessionFileSystem
    rich_metadata: bool

    @classmethod
    def of(
        cls,
        session_id: str,
        workspace_root: str | os.PathLike[str],
        logger: SandboxLogger | EventLogger | None,
        clock: Clock,
        fs: SessionFileSystem,
        rich_metadata: bool,
    ) -> Self:
        """Return the session with an id; its root is resolved, and created if missing."""
        validate_session_id(session_id)
        root = ensure_workspace(Path(os.path.realpath(workspace_root)))
        log = SandboxLogger.of(logger)
        return cls(session_id, root, log, clock, fs, rich_metadata)

    @property
    def workspace(self) -> Path:
        """The host directory of the session."""
        return self.root / self.session_id

    def make(self) -> bool:
        """Create the workspace with its metadata; return False if the name is taken.

        Raises:
            WorkspaceError: The system refused; nothing was created.
        """
        try:
            root_fd = self.fs.open(str(self.root), DIRECTORY_FLAGS)
            try:
                if self._exists(root_fd):
                    return False
                now = self.clock()
                incoming = f"{INCOMING_PREFIX}{random_token()}"
                self.fs.mkdir(incoming, 0o700, dir_fd=root_fd)
                try:
                    failure = self._write_metadata(root_fd, incoming, now)
                    self.fs.rename(
                        incoming, self.session_id, src_dir_fd=root_fd, dst_dir_fd=root_fd
                    )
                except OSError as error:
                    self._remove(root_fd, incoming)
                    if error.errno in _TAKEN:
                        return False  # another process created it meanwhile
                    raise
            finally:
                close_quietly(self.fs, root_fd)
        except OSError as error:
            raise WorkspaceError(
                self.workspace,
                f"it cannot be made ({error.strerror or error})",
                "choose a workspace root this user may write to",
            ) from error
        prepare_root(self.root)
        self.log.info(
            "session.created", session_id=self.session_id, workspace_path=str(self.workspace)
        )
        if failure is None:
            self.log.info(
                "session.metadata.created", session_id=self.session_id, created_at=format_time(now)
            )
        else:
            self.log.warning(
                "session.metadata.failed",
                session_id=self.session_id,
                operation="create",
                reason=failure.strerror or str(failure),
            )
        return True

    def record(self, result: SandboxResult) -> None:
        """Record in the metadata that code ran; the caller holds the workspace."""
        if not (result.success or result.suspended or self.rich_metadata):
            return
        log = self.log.bind(session_id=self.session_id)
        touch_session_metadata(
            self.session_id,
            self.root,
            logger=log,
            clock=self.clock,
            fs=self.fs,
            execution=_record_of(result) if self.rich_metadata else None,
        )
        sweep_now_and_then(self.root, clock=self.clock, log=log)

    def _exists(self, root_fd: int) -> bool:
        try:
            self.fs.stat(self.session_id, dir_fd=root_fd)
        except FileNotFoundError:
            return False
        return True

    def _write_metadata(self, root_fd: int, name: str, now: datetime) -> OSError | None:
        """Write the metadata into a new workspace; return an error rather than raise it."""
        try:
            fd = self.fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
            try:
                create_metadata(self.fs, fd, self.session_id, now=now)
            finally:
                close_quietly(self.fs, fd)
        except OSError as error:
            return error
        return None

    def _remove(self, root_fd: int, name: str) -> None:
        """Remove a new workspace that could not be renamed into place."""
        with suppress(OSError):
            fd = self.fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
            try:
                with suppress(FileNotFoundError):
                    self.fs.unlink(METADATA_NAME, dir_fd=fd)
            finally:
                close_quietly(self.fs, fd)
            self.fs.rmdir(name, dir_fd=root_fd)


def _record_of(result: SandboxResult) -> ExecutionRecord:
    """Return what the metadata records of an execution."""
    printed = result.stderr.strip().splitlines()
    failed = printed[-1] if printed else f"exit code {result.exit_code}"
    went_well = result.success or (result.suspended is not None and result.trapped is None)
    return ExecutionRecord(
        success=went_well,
        fuel=result.fuel_consumed or 0,
        error=None if went_well else failed,
    )


class SessionSandbox(Sandbox):
    """A sandbox over a sandbox session's workspace; created by this module's functions.

    Besides what any `Sandbox` does, its results have `metadata["session_id"]`, the events of its
    executions go to the session's logger with the session's id, and every success or suspension
    advances the `updated_at` of the session's metadata. With `durable=True` its program is in the
    workspace, where the guest does not see it, and is deleted or archived with it. Events that
    others log with structlog during an execution have the id as a context variable.
    """

    def __init__(
        self, session: _Session, policy: ExecutionPolicy | None, settings: SandboxSettings
    ) -> None:
        if settings.durable is True:
            settings = settings._replace(durable=session.workspace / PROGRAM_NAME)
        super().__init__(
            ensure_workspace(session.workspace),
            policy or ExecutionPolicy(),
            settings,
            logger=session.log.bind(session_id=session.session_id),
            facts={"session_id": session.session_id},
            completed=session.record,
        )
        self._session_id = session.session_id

    @property
    def session_id(self) -> str:
        """The sandbox session that this sandbox belongs to."""
        return self._session_id

    def __repr__(self) -> str:
        return f"SessionSandbox(session_id={self._session_id!r}, sandbox={super().__repr__()})"


def create_session_sandbox(
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    new_id: Callable[[], str] = new_uuid4,
    clock: Clock = utc_now,
    fs: SessionFileSystem = OS_FILES,
    rich_metadata: bool = False,
    **options: Unpack[SandboxOptions],
) -> tuple[str, Sandbox]:
    """Create a sandbox session: a workspace with metadata, and a sandbox; nothing runs yet.

    The workspace appears atomically. If its metadata cannot be written, a warning is logged and the
    session has none.

    Args:
        runtime: The language of its code.
        policy: Limits and environment; the default policy if None.
        workspace_root: The directory the sessions' workspaces are in; created with mode 0700 if
            missing.
        logger: Logs the events of the session; structlog's own if None.
        new_id: Returns ids for sessions; an id that is taken is skipped.
        clock: Returns the time.
        fs: The file system.
        rich_metadata: Whether the metadata also has `execution_count`, `total_fuel_consumed` and
            `last_error` of this sandbox's executions; failed ones are counted, too.
        options: The other options of `create_sandbox`.

    Returns:
        The session's id, and the sandbox.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
        InvalidSessionId: `new_id` returned one that cannot name a workspace.
        WorkspaceError: The workspace cannot be created.
        SandboxError: An option is refused, as by `create_sandbox`; no session was created.
    """
    settings = checked_settings(runtime, **options)
    for _ in range(_ATTEMPTS):
        session_id = new_id()
        session = _Session.of(session_id, workspace_root, logger, clock, fs, rich_metadata)
        if session.make():
            return session_id, SessionSandbox(session, policy, settings)
    raise WorkspaceError(
        Path(workspace_root),
        f"{_ATTEMPTS} new session ids in a row were taken",
        "give create_session_sandbox a source of ids that are not in use",
    )


def get_session_sandbox(
    session_id: str,
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    clock: Clock = utc_now,
    fs: SessionFileSystem = OS_FILES,
    rich_metadata: bool = False,
    **options: Unpack[SandboxOptions],
) -> Sandbox:
    """Create a sandbox over a sandbox session's workspace; nothing runs yet.

    An existing workspace is used unchanged, and gets no metadata if it has none. A missing one is
    created as by `create_session_sandbox`, which also documents the arguments.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        UnsupportedRuntime: The runtime is not Python.
        WorkspaceError: The workspace is a symbolic link, not a directory, or cannot be created.
        SandboxError: An option is refused, as by `create_sandbox`.
    """
    validate_session_id(session_id)
    settings = checked_settings(runtime, **options)
    session = _Session.of(session_id, workspace_root, logger, clock, fs, rich_metadata)
    session.make()
    sandbox = SessionSandbox(session, policy, settings)
    session.log.info(
        "session.retrieved", session_id=session_id, workspace_path=str(sandbox.workspace)
    )
    return sandbox
