"""What an interpreter is opened with, and what an execution's guest may use in it."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from ..policy import ExecutionPolicy

if TYPE_CHECKING:
    from ..guest.guest_streams import GuestStreams
    from ..host.files.system_calls import SystemCalls
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

    @classmethod
    def of(cls, policy: ExecutionPolicy, cache: Path | None) -> Self:
        """The class a policy's executions need."""
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
        streams: Takes its output as it comes.
        output_bytes: What is kept of each stream.
        syncs: Whether the disk keeps what the guest syncs.
        system_calls: What files are served with; the system's if None.
    """

    files: "ServedDirectory"
    mounted: "Mapping[str, ServedDirectory]"
    streams: "GuestStreams"
    output_bytes: int
    syncs: bool
    system_calls: "SystemCalls | None"
