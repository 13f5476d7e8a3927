"""Guests of durable programs without a sandbox around them: a machine, and a host that answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Self

from attrs import define, field

from agentforge_sessions.sandbox.guest.guest_code import TEMPORARY, GuestScript
from agentforge_sessions.sandbox.guest.live_code import RESEED, RESUME
from agentforge_sessions.sandbox.guest.tool_frames import encoded_failure, encoded_value
from agentforge_sessions.sandbox.host.files.files import Directory
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.quota import QuotaMeter
from agentforge_sessions.sandbox.host.machine import GuestMachine, TurnLimits, TurnOutcome
from agentforge_sessions.sandbox.interpreters.live_template import live_template
from agentforge_sessions.sandbox.interpreters.prepared_runtime import (
    PreparedRuntime,
    new_machine,
    prepared_runtime,
)
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from agentforge_sessions.sandbox.workspaces.quota import Quota, Room

Json = dict[str, Any]


def live_runtime() -> PreparedRuntime:
    """Return what the guests of this process are opened with."""
    return prepared_runtime(ensure_ready())


@define
class Host:
    """Answers what a guest asks at once, and has the frames of what it said.

    Attributes:
        frames: What it said.
        answer: Returns the answer to a request of a plain function.
    """

    frames: list[Json] = field(factory=list)
    answer: Callable[[Json], object] | None = None

    def admit(self, length: int) -> bytes | None:
        """Accept any request."""
        assert length > 0
        return None

    def __call__(self, request: bytes) -> bytes:
        said = json.loads(request)
        self.frames.append(said)
        if said["op"] == "suspended":
            return encoded_value(0, None)
        if self.answer is None:
            return encoded_failure(said["id"], "unanswered", "nobody answers")
        return encoded_value(said["id"], self.answer(said))


@define
class Turn:
    """What a turn did.

    Attributes:
        outcome: How it ended.
        frames: What it said to the host.
    """

    outcome: TurnOutcome
    frames: list[Json]

    @property
    def printed(self) -> str:
        """What it printed; it ended well."""
        assert (self.outcome.exit_code, self.outcome.stderr) == (0, b""), self.outcome
        return self.outcome.stdout.decode()

    @property
    def error(self) -> str:
        """What it wrote to its standard error."""
        return self.outcome.stderr.decode()

    @property
    def suspended(self) -> Json:
        """What the program waits for."""
        (frame,) = [each for each in self.frames if each["op"] == "suspended"]
        return frame

    @property
    def asked(self) -> list[tuple[int, str]]:
        """The numbers and kinds of the open requests."""
        return [(each["id"], each["kind"]) for each in self.suspended["requests"]]


@define
class LiveGuest:
    """A guest that began with a template for durable programs."""

    machine: GuestMachine
    host: Host = field(factory=Host)

    @classmethod
    def opened(cls, *, science: bool = False, **directories: Directory) -> Self:
        """Open one."""
        runtime = live_runtime()
        machine = new_machine(
            runtime.program, runtime.library, live_template(runtime, science=science)
        )
        room = Room(
            -1, Quota(workspace_bytes=1 << 30, workspace_files=1000, file_bytes=1 << 30), None
        )
        temporary = MemoryTree(QuotaMeter(room, temporary=True))
        machine.mount(
            {TEMPORARY: temporary.root}
            | {f"/{name}": directory for name, directory in directories.items()}
        )
        return cls(machine)

    def run(self, source: str, *, stdin: bytes = b"", argv: tuple[str, ...] = ()) -> Turn:
        """Run a script."""
        return self.turn(GuestScript(source=source, argv=argv).message(), stdin=stdin)

    def resume(self, answers: Mapping[int, Json] | None = None) -> Turn:
        """Go on with answers."""
        return self.turn(f"\0{RESUME}\0{json.dumps({'answers': answers or {}})}")

    def reseed(self) -> Turn:
        """Have chance drawn again."""
        return self.turn(f"\0{RESEED}\0")

    def turn(self, message: str, *, stdin: bytes = b"", seconds: float = 60) -> Turn:
        """Run a turn."""
        self.host.frames = []
        limits = TurnLimits(fuel=1 << 50, output_bytes=1 << 20, seconds=seconds)
        outcome = self.machine.turn(message.encode(), limits, stdin=stdin, door=self.host)
        return Turn(outcome, self.host.frames)
