"""The result of a command in a jail."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen


class Stop(StrEnum):
    """Why the jail ended a command early."""

    DEADLINE = "deadline"
    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    FILES = "files"
    OUTPUT = "output"
    CANCELLED = "cancelled"


class Means(StrEnum):
    """How a limit is enforced."""

    CGROUP = "cgroup"
    """By the kernel, for all processes together."""
    WATCHED = "watched"
    """By checks several times a second, which kill what exceeds it."""


@frozen(kw_only=True)
class JailUsage:
    """The resources that a command used, as far as they were measured.

    Attributes:
        seconds: Wall-clock time from its start to the end of its last process.
        memory_bytes: The most memory at once, in bytes.
        processes: The most processes and threads at once, as measured.
        workspace_bytes: The size of the workspace at the end, in bytes on the disk.
        workspace_files: The number of files and folders in it then.
        held_by: How the limits of memory and processes were enforced.
    """

    seconds: float
    memory_bytes: int
    processes: int
    workspace_bytes: int
    workspace_files: int
    held_by: Means


@frozen(kw_only=True)
class JailResult:
    """The end of a command, with its output.

    Attributes:
        exit_code: Its exit code, 128 and the signal's number if a signal ended it; None if the jail
            ended it first.
        started: Whether the program exists; if not, the exit code is 127 (or 126 if it may not be
            run).
        stopped: Why the jail ended it, or None.
        stdout: Its output, up to the limit.
        stderr: Its standard error, up to the limit.
        usage: The resources that it used.
        sealed: Whether it was cut off from every network. False if the policy gave it one.
    """

    exit_code: int | None
    started: bool = True
    stopped: Stop | None = None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)
    usage: JailUsage
    sealed: bool = True

    @property
    def success(self) -> bool:
        """Whether it ran to its end with exit code 0."""
        return self.stopped is None and self.exit_code == 0
