"""Making sandboxes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import shown
from .errors import InvalidPolicy, SandboxError
from .host_functions import check_tools
from .policy import ExecutionPolicy, seconds_fault
from .sandbox import DEFAULT_IDLE_S, Sandbox
from .sandbox_logging import EventLogger, SandboxLogger
from .worker_executor import Isolation
from .workspace import ensure_workspace


class RuntimeType(StrEnum):
    """The languages that code can be in."""

    PYTHON = "python"


class UnsupportedRuntime(SandboxError, ValueError):
    """A sandbox was asked to run a language that it has no interpreter for."""

    def __init__(self, runtime: object) -> None:
        super().__init__(
            f"the runtime {shown(runtime)} is not supported; nothing was made. "
            f"Use one of {', '.join(repr(str(known)) for known in RuntimeType)}"
        )


def require_python(runtime: object) -> None:
    """Refuse every other language.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
    """
    if runtime != RuntimeType.PYTHON:
        raise UnsupportedRuntime(runtime)


def create_sandbox(
    *,
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    workspace: str | os.PathLike[str] = Path("workspace"),
    policy: ExecutionPolicy | None = None,
    stateful: bool = False,
    idle_s: float = DEFAULT_IDLE_S,
    busy_timeout_s: float | None = None,
    tools: Sequence[Any] = (),
    gate: Callable[..., Any] | None = None,
    isolation: Isolation | None = None,
    logger: SandboxLogger | EventLogger | None = None,
) -> Sandbox:
    """Make a sandbox over a workspace directory; nothing runs yet.

    Args:
        runtime: The language of the code.
        workspace: The directory the guest will see as `/app`; made with mode 0700 if missing,
            taken as it is if there.
        policy: Limits and environment; the default policy if None.
        stateful: Keep one interpreter, so that variables persist between executions until
            `Sandbox.close`, until it has rested for `idle_s`, or until an execution is trapped.
        idle_s: Seconds the interpreter of a stateful sandbox may rest.
        busy_timeout_s: The longest an execution waits for others in the same workspace, in
            seconds; the policy's `deadline_s` if None.
        tools: Functions of the host the code may call, as `from host import tools`; plain
            functions with type hints, or the runner's own `Tool` objects.
        gate: Called with each call before it is made; refuses it by returning False.
        isolation: "process" runs executions in a process apart, which is kept until
            `Sandbox.close`; not with `tools`.
        logger: Told the events of executions; the library's own log if None.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
        WorkspaceError: The workspace is a symbolic link, no directory, or cannot be made.
        InvalidPolicy: A number of seconds or the isolation is refused; `.faults` names each.
        InvalidExecution: A tool cannot be offered; `.faults` names each.
    """
    require_python(runtime)
    found = [
        seconds_fault("idle_s", idle_s),
        None if busy_timeout_s is None else seconds_fault("busy_timeout_s", busy_timeout_s),
    ]
    faults = [fault for fault in found if fault is not None]
    if isolation not in (None, "process"):
        faults.append(f"isolation must be None or 'process', not {shown(isolation)}")
    elif isolation is not None and tools:
        faults.append("tools cannot be called from a process apart; use no isolation")
    if faults:
        raise InvalidPolicy(faults)
    offered = check_tools(tools, gate)
    return Sandbox(
        ensure_workspace(Path(workspace)),
        policy or ExecutionPolicy(),
        stateful=stateful,
        idle_s=idle_s,
        busy_timeout_s=busy_timeout_s,
        tools=offered,
        gate=gate,
        isolation=isolation,
        logger=None if logger is None else SandboxLogger.of(logger),
    )
