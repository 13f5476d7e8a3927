"""Machines of the sandbox with a workspace and a `/tmp`, whose state is captured and restored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.sandbox import ExecutionPolicy
from agentforge_sessions.sandbox.guest.guest_code import GUEST_WORKSPACE, HOME_NAME, TEMPORARY
from agentforge_sessions.sandbox.host.files.files import Directory
from agentforge_sessions.sandbox.host.files.host_directory import HostTree
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.memory_nodes import OF_A_NODE
from agentforge_sessions.sandbox.host.files.quota import QuotaMeter
from agentforge_sessions.sandbox.host.machine import TurnLimits, TurnOutcome
from agentforge_sessions.sandbox.host.template import Template
from agentforge_sessions.sandbox.installed.interpreter_files import LIBRARY_ARCHIVE, MODULE
from agentforge_sessions.sandbox.interpreters.prepared_runtime import (
    PreparedRuntime,
    new_machine,
    prepared_runtime,
)
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from agentforge_sessions.sandbox.live.capture import MachineState, capture, restore
from agentforge_sessions.sandbox.live.snapshot_file import Interpreter, ProgramSnapshot, snapshot_of
from agentforge_sessions.sandbox.workspaces.quota import Quota, Room, UsageCounter
from agentforge_sessions.sandbox.workspaces.workspace import ChangeLedger

POLICY: Final = ExecutionPolicy()
QUOTA: Final = Quota(
    workspace_bytes=POLICY.workspace_bytes,
    workspace_files=POLICY.workspace_files,
    file_bytes=POLICY.file_bytes,
    temporary_bytes=POLICY.temporary_bytes,
    temporary_files=POLICY.workspace_files,
)


def runtime() -> PreparedRuntime:
    return prepared_runtime(ensure_ready())


def interpreter() -> Interpreter:
    digests = runtime().files.digests
    return Interpreter(digests[MODULE], digests[LIBRARY_ARCHIVE])


def saved(state: MachineState, said: Mapping[str, Any] | None = None) -> ProgramSnapshot:
    return snapshot_of(
        state,
        interpreter=interpreter(),
        template=runtime().template,
        limits=POLICY,
        said=said or {},
    )


def loaded(snapshot: ProgramSnapshot, policy: ExecutionPolicy = POLICY) -> MachineState:
    return snapshot.state(
        interpreter=interpreter(), template_of=lambda _: runtime().template, limits=policy
    )


class LiveMachine:
    """A machine that serves a workspace, and keeps its `/tmp` between turns."""

    def __init__(self, workspace: Path, *, template: Template | None = None) -> None:
        prepared = runtime()
        self.template = template or prepared.template
        self.fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
        counter = UsageCounter()
        counter.begin(self.fd)
        self.room = Room(self.fd, QUOTA, counter)
        self.machine = new_machine(prepared.program, prepared.library, self.template, limits=POLICY)
        upkeep = self.machine.guest.upkeep
        self.workspace = HostTree(self.fd, QuotaMeter(self.room), ChangeLedger(), hides=True)
        self.workspace.serve_for(upkeep)
        self.temporary = MemoryTree(QuotaMeter(self.room, temporary=True), upkeep=upkeep)
        self.temporary.add(HOME_NAME.encode(), None)
        directories: dict[str, Directory] = {
            GUEST_WORKSPACE: self.workspace.root,
            TEMPORARY: self.temporary.root,
        }
        self.machine.mount(directories)

    def turn(self, code: str, *, seconds: float = 60.0, stdin: bytes = b"") -> TurnOutcome:
        limits = TurnLimits(fuel=1 << 60, output_bytes=1 << 20, seconds=seconds)
        return self.machine.turn(code.encode(), limits, stdin=stdin)

    def run(self, code: str) -> str:
        """What it printed; it must end well."""
        done = self.turn(code)
        assert (done.exit_code, done.stopped) == (0, None), done.stderr.decode()
        return done.stdout.decode()

    def capture(self, **others: Any) -> MachineState:
        return capture(self.machine, template=self.template, temporary=self.temporary, **others)

    def restore(self, state: MachineState, **others: Any) -> None:
        restore(state, self.machine, template=self.template, temporary=self.temporary, **others)

    def counted(self) -> tuple[object, ...]:
        """What is counted of its files."""
        descriptors = self.machine.guest.descriptors
        rooms = self.room._temporary, self.room._promised, self.room._promised_temporary
        held = self.machine.guest.upkeep.held - self.workspace.changes.held
        return descriptors._opened, round(held / OF_A_NODE), *rooms

    def close(self) -> None:
        self.machine.close()
        self.workspace.close()
        os.close(self.fd)


@contextmanager
def machines(workspace: Path) -> Iterator[Callable[..., LiveMachine]]:
    """Open machines on a workspace, which are closed at the end."""
    workspace.mkdir(exist_ok=True)
    opened: list[LiveMachine] = []

    def one(**others: Any) -> LiveMachine:
        opened.append(LiveMachine(workspace, **others))
        return opened[-1]

    try:
        yield one
    finally:
        for each in opened:
            each.close()
