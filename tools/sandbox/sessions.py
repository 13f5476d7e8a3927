"""Sandboxes that belong to sessions: one workspace for each, kept between executions.

    session_id, sandbox = create_session_sandbox(workspace_root=Path("workspace"))
    sandbox.execute("open('state.txt', 'w').write('1')")
    ...
    get_session_sandbox(session_id).execute("print(open('state.txt').read())")
    delete_session_workspace(session_id)

There is no registry: a session is its directory under the workspace root.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from attrs import evolve, frozen

from ..clock import Clock, utc_now
from ..durable import DirectoryLock, FileSystem, discard_tree
from ..durable.filesystem import DIRECTORY_FLAGS
from ..event_log import bound_fields
from ..identifiers import new_uuid4
from ..prune import prepare_root
from .errors import WorkspaceError
from .factory import RuntimeType, create_sandbox, require_python
from .policy import ExecutionPolicy
from .request import Request
from .result import SandboxResult
from .sandbox import Sandbox
from .sandbox_logging import EventLogger, SandboxLogger
from .session_files import (
    DEFAULT_ROOT,
    INCOMING_PREFIX,
    LOCK_TIMEOUT_S,
    OS_FILES,
    PathEscapesWorkspace,
    SessionFileSystem,
    close_quietly,
    random_token,
    validate_session_id,
)
from .session_metadata import (
    METADATA_NAME,
    ExecutionRecord,
    create_metadata,
    format_time,
    touch_session_metadata,
)
from .worker_executor import Isolation
from .workspace import ensure_workspace
from .workspace_leftovers import sweep_now_and_then, sweep_root
from .workspace_lock import claim

_ATTEMPTS: Final = 8
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


class SandboxOptions(TypedDict, total=False):
    """What `create_sandbox` takes beside the workspace and the policy; see there."""

    stateful: bool
    idle_s: float
    busy_timeout_s: float | None
    tools: Sequence[Any]
    gate: Callable[..., Any] | None
    isolation: Isolation | None


class SessionSandbox(Sandbox):
    """A sandbox over the workspace of a session; made by the functions of this module.

    It does what any `Sandbox` does. Beyond that its results carry `metadata["session_id"]`, its
    executions are told to the session's logger with the session's id, and every success moves the
    `updated_at` of the session's metadata on. Whatever events others tell structlog during an
    execution have the id among their context variables.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        session_id: str,
        *,
        logger: SandboxLogger,
        clock: Clock,
        token: Callable[[], str],
        fs: SessionFileSystem,
        rich_metadata: bool = False,
    ) -> None:
        vars(self).update(vars(sandbox))  # takes the place of one that nobody has used yet
        self._session_id = session_id
        self._events = self._logger = logger.bind(session_id=session_id)
        self._clock = clock
        self._token = token
        self._fs = fs
        self._rich_metadata = rich_metadata

    @property
    def session_id(self) -> str:
        """The session this sandbox belongs to."""
        return self._session_id

    def __repr__(self) -> str:
        return f"SessionSandbox(session_id={self._session_id!r}, sandbox={super().__repr__()})"

    def _execute(
        self, request: Request, stop: threading.Event, afterwards: ExitStack
    ) -> SandboxResult:
        with bound_fields(session_id=self._session_id):
            result = super()._execute(request, stop, afterwards)
        return evolve(result, metadata={**result.metadata, "session_id": self._session_id})

    def _execute_in(
        self,
        root: int,
        request: Request,
        stop: threading.Event,
        cache: Path | None,
        afterwards: ExitStack,
    ) -> SandboxResult:
        result = super()._execute_in(root, request, stop, cache, afterwards)
        if result.success or self._rich_metadata:
            touch_session_metadata(
                self._session_id,
                self.workspace.parent,
                logger=self._logger,
                clock=self._clock,
                token=self._token,
                fs=self._fs,
                execution=_record_of(result) if self._rich_metadata else None,
            )
            sweep_now_and_then(
                self.workspace.parent, clock=self._clock, token=self._token, log=self._logger
            )
        return result


def _record_of(result: SandboxResult) -> ExecutionRecord:
    """What of an execution the metadata of a session keeps that counts them."""
    said = result.stderr.strip().splitlines()
    failed = said[-1] if said else f"exit code {result.exit_code}"
    return ExecutionRecord(
        success=result.success,
        fuel=result.fuel_consumed or 0,
        error=None if result.success else failed,
    )


def create_session_sandbox(
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    new_id: Callable[[], str] = new_uuid4,
    clock: Clock = utc_now,
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
    rich_metadata: bool = False,
    **options: Unpack[SandboxOptions],
) -> tuple[str, Sandbox]:
    """Make a session: its workspace with its metadata, and a sandbox over it; nothing runs yet.

    The workspace appears as a whole. If its metadata cannot be written, a warning says so and the
    session has none.

    Args:
        runtime: The language of its code.
        policy: Limits and environment; the default policy if None.
        workspace_root: The directory the sessions' workspaces are in; made with mode 0700 if
            missing.
        logger: Told the events of the session; structlog's own if None.
        new_id: Gives ids for sessions; one that is taken is passed over.
        clock: Gives the time.
        token: Gives a fresh random text for names on the way.
        fs: The file system.
        rich_metadata: Whether the metadata also keeps `execution_count`, `total_fuel_consumed` and
            `last_error` of the executions of this sandbox; failed ones are counted, too.
        options: What `create_sandbox` takes beside these.

    Returns:
        The session's id, and the sandbox.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
        InvalidSessionId: `new_id` gave one that cannot name a workspace.
        WorkspaceError: The workspace cannot be made.
        SandboxError: An option is refused, as by `create_sandbox`; no session was made.
    """
    require_python(runtime)
    log = SandboxLogger.of(logger)
    for _ in range(_ATTEMPTS):
        session_id = validate_session_id(new_id())
        root = _ensure_root(workspace_root)
        made = _make_workspace(root, session_id, clock=clock, token=token, fs=fs)
        if made is not None:
            sandbox = _sandbox_over(root, session_id, made, policy, log, fs, options)
            return session_id, SessionSandbox(
                sandbox,
                session_id,
                logger=log,
                clock=clock,
                token=token,
                fs=fs,
                rich_metadata=rich_metadata,
            )
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
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
    rich_metadata: bool = False,
    **options: Unpack[SandboxOptions],
) -> Sandbox:
    """Make a sandbox over the workspace of a session; nothing runs yet.

    A workspace that is there is taken as it is, and gets no metadata if it has none. One that is
    missing is made as `create_session_sandbox` makes it.

    Args:
        session_id: The session.
        runtime: The language of its code.
        policy: Limits and environment; the default policy if None.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Told the events of the session; structlog's own if None.
        clock: Gives the time.
        token: Gives a fresh random text for names on the way.
        fs: The file system.
        rich_metadata: Whether the metadata also keeps `execution_count`, `total_fuel_consumed` and
            `last_error` of the executions of this sandbox; failed ones are counted, too.
        options: What `create_sandbox` takes beside these.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        UnsupportedRuntime: The runtime is not Python.
        WorkspaceError: The workspace is a symbolic link, no directory, or cannot be made.
        SandboxError: An option is refused, as by `create_sandbox`.
    """
    validate_session_id(session_id)
    require_python(runtime)
    log = SandboxLogger.of(logger)
    root = _ensure_root(workspace_root)
    made = _make_workspace(root, session_id, clock=clock, token=token, fs=fs)
    sandbox = _sandbox_over(root, session_id, made, policy, log, fs, options)
    log.session_retrieved(session_id, workspace_path=str(sandbox.workspace))
    return SessionSandbox(
        sandbox,
        session_id,
        logger=log,
        clock=clock,
        token=token,
        fs=fs,
        rich_metadata=rich_metadata,
    )


def _ensure_root(workspace_root: str | os.PathLike[str]) -> Path:
    """The workspace root without links, made if it was missing."""
    return ensure_workspace(Path(os.path.realpath(workspace_root)))


@frozen
class _Made:
    """A workspace that was just made: when, and what kept the metadata from being written."""

    at: datetime
    failure: OSError | None


def _sandbox_over(
    root: Path,
    session_id: str,
    made: _Made | None,
    policy: ExecutionPolicy | None,
    log: SandboxLogger,
    fs: SessionFileSystem,
    options: SandboxOptions,
) -> Sandbox:
    """A plain sandbox over a session's workspace; a workspace made for nothing is taken away."""
    try:
        sandbox = create_sandbox(workspace=root / session_id, policy=policy, **options)
    except BaseException:
        if made is not None:
            with suppress(OSError):
                root_fd = fs.open(str(root), DIRECTORY_FLAGS)
                try:
                    _take_away(fs, root_fd, session_id)
                finally:
                    close_quietly(fs, root_fd)
        raise
    if made is not None:
        log.session_created(session_id, workspace_path=str(root / session_id))
        if made.failure is None:
            log.metadata_created(session_id, created_at=format_time(made.at))
        else:
            reason = made.failure.strerror or str(made.failure)
            log.metadata_failed(session_id, operation="create", reason=reason)
    return sandbox


def _make_workspace(
    root: Path,
    session_id: str,
    *,
    clock: Clock,
    token: Callable[[], str],
    fs: SessionFileSystem,
) -> _Made | None:
    """Make a session's workspace, with its metadata; None if the name is taken."""
    try:
        root_fd = fs.open(str(root), DIRECTORY_FLAGS)
        try:
            if _exists(fs, root_fd, session_id):
                return None
            now = clock()
            incoming = f"{INCOMING_PREFIX}{token()}"
            fs.mkdir(incoming, 0o700, dir_fd=root_fd)
            try:
                failure = _furnish(fs, root_fd, incoming, session_id, now)
                fs.rename(incoming, session_id, src_dir_fd=root_fd, dst_dir_fd=root_fd)
            except OSError as error:
                _take_away(fs, root_fd, incoming)
                if error.errno in _TAKEN:
                    return None  # somebody else made it meanwhile
                raise
        finally:
            close_quietly(fs, root_fd)
    except OSError as error:
        raise WorkspaceError(
            root / session_id,
            f"it cannot be made ({error.strerror or error})",
            "choose a workspace root this user may write to",
        ) from error
    prepare_root(root)
    return _Made(now, failure)


def _exists(fs: FileSystem, directory_fd: int, name: str) -> bool:
    try:
        fs.stat(name, dir_fd=directory_fd)
    except FileNotFoundError:
        return False
    return True


def _furnish(
    fs: SessionFileSystem, root_fd: int, name: str, session_id: str, now: datetime
) -> OSError | None:
    """Put the metadata into a new workspace, and return what stood in the way of that."""
    try:
        fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
        try:
            create_metadata(fs, fd, session_id, now=now)
        finally:
            close_quietly(fs, fd)
    except OSError as error:
        return error
    return None


def _take_away(fs: FileSystem, root_fd: int, name: str) -> None:
    """Remove a new workspace that did not get its name."""
    with suppress(OSError):
        fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
        try:
            with suppress(FileNotFoundError):
                fs.unlink(METADATA_NAME, dir_fd=fd)
        finally:
            close_quietly(fs, fd)
        fs.rmdir(name, dir_fd=root_fd)


def delete_session_workspace(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    busy_timeout_s: float = LOCK_TIMEOUT_S,
    clock: Clock = utc_now,
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Delete a session's workspace with all it holds; nothing happens if there is none.

    Waits for an execution that runs in the workspace, in this process or another, and lets none
    begin meanwhile. The workspace is renamed out of sight first, so nobody sees half of it. Links
    in it are deleted, never followed. What processes that died left half done in the workspace
    root is swept away on this occasion.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Told `session.deleted` if there was a workspace, and `session.swept`.
        busy_timeout_s: How long to wait for an execution, in seconds; 0 does not wait.
        clock: Gives the time.
        token: Gives a fresh random text for the name out of sight.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace; the file system was not touched.
        PathEscapesWorkspace: A symbolic link stands in the workspace's place; it was left there.
        NotADirectoryError: A file stands in its place; it was left there.
        WorkspaceBusy: An execution ran in it for the whole wait; nothing was deleted.
        WorkspaceError: It cannot be opened or locked; nothing was deleted.
        DurableError: It could not be deleted, or only in part; it says which.
    """
    validate_session_id(session_id)
    log = SandboxLogger.of(logger)
    root = Path(workspace_root)
    existed: bool | None = None
    while existed is None:
        with ExitStack() as held:
            claimed = _claim_existing(held, fs, root / session_id, busy_timeout_s)
            lock = DirectoryLock(fs, root, timeout_s=LOCK_TIMEOUT_S, follow=True)
            try:
                held.enter_context(lock)
            except FileNotFoundError:
                return
            existed = _discard(fs, lock.fd, root, session_id, claimed, token)
            if existed is not None:
                sweep_root(fs, lock.fd, root, now=clock(), token=token, log=log)
    if existed:
        log.session_deleted(session_id)


def _claim_existing(
    held: ExitStack, fs: FileSystem, workspace: Path, timeout_s: float
) -> os.stat_result | None:
    """Claim a workspace for deletion and tell which directory it is; None if there is none."""
    try:
        if not stat.S_ISDIR(fs.stat(str(workspace)).st_mode):
            return None
    except OSError:
        return None  # what stands in the way is told once the root is locked
    try:
        fd = held.enter_context(claim(workspace, timeout_s=timeout_s))
    except WorkspaceError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _GONE:
            return None
        raise
    return None if fd is None else os.fstat(fd)


def _discard(
    fs: FileSystem,
    root_fd: int,
    root: Path,
    session_id: str,
    claimed: os.stat_result | None,
    token: Callable[[], str],
) -> bool | None:
    """Whether there was a workspace, now deleted; None if it is another than the claimed one."""
    try:
        found = fs.stat(session_id, dir_fd=root_fd)
    except FileNotFoundError:
        return False
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        raise PathEscapesWorkspace(session_id, "a symbolic link stands in the workspace's place")
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), session_id)
    if claimed is None or not os.path.samestat(found, claimed):
        return None
    discard_tree(fs, root_fd, session_id, parent=root, token=token)
    return True
