"""The class an interpreter is opened with, and the services of an execution's guest."""

# No deferred annotations here: as strings, each field's would have to be compiled.

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from ..policy import ExecutionPolicy

if TYPE_CHECKING:
    from ..guest.guest_streams import GuestStreams
    from ..host.files.system_calls import SystemCalls
    from ..workspaces.workspace import ServedDirectory


class InterpreterClass(NamedTuple):
    """What an interpreter is opened with; it can serve any execution of the same class.

    Attributes:
        memory_bytes: The policy's field of that name.
        open_files: Likewise.
        file_calls: Likewise.
        environment: Likewise, sorted.
        cache: The directory of compiled modules, or None.
    """

    memory_bytes: int
    open_files: int
    file_calls: int
    environment: tuple[tuple[str, str], ...]
    cache: Path | None

    @classmethod
    def of(cls, policy: ExecutionPolicy, cache: Path | None) -> Self:
        """Return the class that a policy's executions need."""
        return cls(
            memory_bytes=policy.memory_bytes,
            open_files=policy.open_files,
            file_calls=policy.file_calls,
            environment=tuple(sorted(policy.environment.items())),
            cache=cache,
        )


class GuestServices(NamedTuple):
    """What one execution's guest may use.

    Attributes:
        files: Its workspace.
        mounted: The directories of the policy's mounts, by guest path.
        streams: Forwards its output while it runs.
        output_bytes: How much of each stream is stored.
        syncs: Whether the guest's syncs wait for the disk.
        system_calls: The system calls for files; the real ones if None.
    """

    files: "ServedDirectory"
    mounted: "Mapping[str, ServedDirectory]"
    streams: "GuestStreams"
    output_bytes: int
    syncs: bool
    system_calls: "SystemCalls | None"
