"""What became of a command in a jail."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen


class Stop(StrEnum):
    """Why the jail ended a command before its own end."""

    DEADLINE = "deadline"
    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    FILES = "files"
    OUTPUT = "output"
    CANCELLED = "cancelled"


class Means(StrEnum):
    """By what a limit is held."""

    CGROUP = "cgroup"
    """The kernel's, for all processes together."""
    WATCHED = "watched"
    """Looked at several times a second; what goes beyond it is killed."""


@frozen(kw_only=True)
class JailUsage:
    """What a command used, as far as it was seen.

    Attributes:
        seconds: Wall-clock time from its start to the end of its last process.
        memory_bytes: The most memory at once, in bytes.
        processes: The most processes and threads seen at once.
        workspace_bytes: What the workspace took up at the end, in bytes on the disk.
        workspace_files: How many files and folders it then held.
        held_by: By what memory and processes were held to their limits.
    """

    seconds: float
    memory_bytes: int
    processes: int
    workspace_bytes: int
    workspace_files: int
    held_by: Means


@frozen(kw_only=True)
class JailResult:
    """How a command ended, with what it printed.

    Attributes:
        exit_code: Its exit code, 128 and the signal's number where a signal ended it; None when
            the jail ended it first.
        started: Whether there was such a program; if not, the exit code is 127 (or 126 where it
            may not be run).
        stopped: Why the jail ended it, or None.
        stdout: What it printed, up to the limit.
        stderr: What it printed to standard error, up to the limit.
        usage: What it used.
        sealed: Whether it was cut off from every network. False where the policy gave it one.
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
