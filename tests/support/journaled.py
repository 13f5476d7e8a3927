"""Turns of a machine with a journal: run, killed at a call, run again from the same start."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define

from agentforge_sessions.sandbox.guest.guest_code import GUEST_WORKSPACE, TEMPORARY, GuestScript
from agentforge_sessions.sandbox.host.engine.guest_thread import with_room
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.quota import QuotaMeter
from agentforge_sessions.sandbox.host.files.system_calls import LINUX, SystemCalls
from agentforge_sessions.sandbox.host.machine import GuestMachine, TurnLimits, TurnOutcome
from agentforge_sessions.sandbox.interpreters.prepared_runtime import new_machine, prepared_runtime
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from agentforge_sessions.sandbox.live.journal.live_journal import LiveJournal
from agentforge_sessions.sandbox.live.journal.replayed_calls import ReplayedCalls
from agentforge_sessions.sandbox.workspaces.quota import Quota
from tests.support.host_trees import AMPLE, served

LIMITS = TurnLimits(fuel=1 << 40, output_bytes=1 << 20, seconds=60.0)


class Killed(BaseException):
    """What stands for the end of the process."""


@define
class Ended:
    """How a turn ended.

    Attributes:
        outcome: What the machine says.
        memory: The digest of its memory.
        entries: Its journal.
        made: How many system calls were made for real.
    """

    outcome: TurnOutcome
    memory: str
    entries: bytes
    made: int


class CountedCalls:
    """The real system calls, counted, until the process ends at one of them.

    Args:
        last: The number of the call at which it ends; None for never.
        after: Whether that call is still made.
    """

    def __init__(self, last: int | None = None, *, after: bool = True) -> None:
        self.made = 0
        self._last, self._after = last, after

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(LINUX, name)

        def call(*args: Any, **named: Any) -> Any:
            self.made += 1
            if self._last is not None and self.made >= self._last and name != "close":
                if self.made == self._last and self._after:
                    real(*args, **named)
                self.end()
            return real(*args, **named)

        return call

    def end(self) -> None:
        """End the process."""
        raise Killed


class Sink:
    """What outlives a process: the notes that were handed on.

    Args:
        data: Those of earlier runs.
        then: Takes them, too.
    """

    def __init__(self, data: bytes = b"", then: Callable[[bytes], object] | None = None) -> None:
        self.data = data
        self._then = then

    def __call__(self, more: bytes) -> None:
        self.data += more
        if self._then is not None:
            self._then(more)


@contextmanager
def machine_at(workspace: Path, calls: SystemCalls, quota: Quota) -> Iterator[GuestMachine]:
    """A machine that serves a workspace and an empty `/tmp`."""
    runtime = prepared_runtime(ensure_ready())
    machine = new_machine(runtime.program, runtime.library, runtime.template)
    try:
        with served(workspace, quota, calls=calls) as tree:
            tree.serve_for(machine.guest.upkeep)
            temporary = MemoryTree(
                QuotaMeter(tree.meter.room, temporary=True),
                upkeep=machine.guest.upkeep,
                now_ns=machine.guest.wall_ns,
            )
            machine.mount({GUEST_WORKSPACE: tree.root, TEMPORARY: temporary.root})
            yield machine
            machine.close_files()
    finally:
        machine.close()


def digest(machine: GuestMachine) -> str:
    memory = machine.instance.memory
    memory.refresh()
    return hashlib.sha256(memory.view(0, memory.known)).hexdigest()


def run(
    workspace: Path,
    code: str,
    sink: Sink,
    *,
    real: Any = None,
    limits: TurnLimits = LIMITS,
    door: Any = None,
    stdin: bytes = b"",
    hand_on: Any = (None, None),
    quota: dict[str, int] | None = None,
    **journal: Any,
) -> Ended:
    """Run a turn, or run it again, in a new machine."""
    counted = CountedCalls() if real is None else real
    calls = ReplayedCalls(counted)
    noted = LiveJournal(sink.data, files=calls, sink=sink, **journal)
    if door is not None:
        door.journal = noted
    with machine_at(workspace, calls, AMPLE._replace(**quota or {})) as machine:
        before = counted.made
        outcome = with_room(
            lambda: machine.turn(
                GuestScript(source=code).message().encode(),
                limits,
                stdin=stdin,
                hand_on=hand_on,
                door=door,
                journal=noted,
            ),
            lambda: None,
        )
        return Ended(outcome, digest(machine), noted.entries, counted.made - before)
