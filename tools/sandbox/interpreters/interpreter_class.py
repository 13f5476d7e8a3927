"""What an interpreter is opened with, and what an open one offers."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..guest.completed_turn import Completed
from ..guest.guest_code import Script
from ..policy import ExecutionPolicy

if TYPE_CHECKING:
    from ..guest.guest_streams import GuestStreams
    from ..host.files.system_calls import SystemCalls
    from ..result_parts import LostWrite
    from ..workspaces.served_directory import ServedDirectory


class InterpreterClass(NamedTuple):
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


class InterpreterEnded(Exception):
    """An interpreter ended between two turns; nothing of the turn ran.

    Attributes:
        reason: Why it ended.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the interpreter has ended: {reason}")


class GuestServices(NamedTuple):
    """What one execution's guest may use.

    Attributes:
        files: Its workspace.
        streams: Takes its output as it comes, where that is wanted.
        mounted: The directories of the policy's mounts, by guest path.
        system_calls: What files are served with; the system's if None.
        syncs: Whether the disk keeps what the guest syncs.
    """

    files: "ServedDirectory"
    streams: "GuestStreams | None"
    mounted: "Mapping[str, ServedDirectory]"
    system_calls: "SystemCalls | None" = None
    syncs: bool = False


class Interpreter(Protocol):
    """An open interpreter whose workspace can still be chosen."""

    @property
    def kind(self) -> InterpreterClass:
        """What it was opened with."""

    @property
    def ended(self) -> str | None:
        """Why it runs no more turns, or None while it does."""

    @property
    def memory_held(self) -> int | None:
        """The most linear memory it held since it was opened, in bytes, or None if it ended."""

    @property
    def lost_writes(self) -> "tuple[LostWrite, ...]":
        """The files that are not what the last script wrote."""

    def serving(self, services: GuestServices) -> AbstractContextManager[None]:
        """Serve an execution's guest until the block is left, and nothing afterwards."""

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
        """Run a script under limits of its own.

        Args:
            script: What to run.
            keep: Whether it and its variables are used again.
            stdin: What descriptor 0 holds.
            fuel: WebAssembly instructions.
            deadline_s: Wall-clock seconds.
            output_bytes: What is kept of each stream.
            cancel: Ends it early once set.

        Raises:
            InterpreterEnded: It ended before the turn.
            SandboxUnavailable: Its host cannot run it.
        """

    def fitness(self, source: str) -> int:
        """How well it suits a script: not at all for 0, better the higher."""

    def restore(self) -> bool:
        """Make it what it was when it was opened, so that it can serve another execution.

        Returns:
            Whether it is that again. If not, close it.
        """

    def close(self) -> None:
        """End it and free what it held; its memory and private files are gone on return."""
