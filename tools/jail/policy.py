"""The policy of a jail (limits, folders, network, environment), and the result of a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from attrs import field, frozen

from ..base.errors import shown
from .errors import InvalidJail

DEFAULT_DEADLINE_S: Final = 600.0
DEFAULT_MEMORY_BYTES: Final = 4 << 30
DEFAULT_PROCESSES: Final = 512
DEFAULT_FILE_BYTES: Final = 1 << 30
DEFAULT_WORKSPACE_BYTES: Final = 8 << 30
DEFAULT_WORKSPACE_FILES: Final = 400_000
DEFAULT_OUTPUT_BYTES: Final = 8 << 20
DEFAULT_OPEN_FILES: Final = 4096
DEFAULT_SCRATCH_BYTES: Final = 512 << 20
MAX_DEADLINE_S: Final = 86_400.0
MAX_MOUNTS: Final = 64

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_OWN_VARIABLES: Final = frozenset({"HOME", "PATH", "TMPDIR", "PWD"})
_LOADER_VARIABLES: Final = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"})


@frozen(kw_only=True)
class JailLimits:
    """The limits of one command.

    Attributes:
        deadline_s: Wall-clock seconds, above 0 and at most 86400.
        memory_bytes: The most memory of all processes together, in bytes, from 16 MiB on.
        processes: The most processes and threads at once, from 4 on.
        file_bytes: The largest file that a process may write, in bytes.
        workspace_bytes: The most bytes that the workspace may take up on the disk, including its
            earlier content.
        workspace_files: The most files and folders of the workspace, and of each scratch folder.
        output_bytes: The most bytes of each of standard output and standard error.
        open_files: The most files that a process may hold open.
        scratch_bytes: The size of each of `/tmp`, `/dev/shm` and the home in the jail, in bytes;
            they are in memory.

    Raises:
        InvalidJail: One or more values are refused; `.faults` names each.
    """

    deadline_s: float = DEFAULT_DEADLINE_S
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    processes: int = DEFAULT_PROCESSES
    file_bytes: int = DEFAULT_FILE_BYTES
    workspace_bytes: int = DEFAULT_WORKSPACE_BYTES
    workspace_files: int = DEFAULT_WORKSPACE_FILES
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    open_files: int = DEFAULT_OPEN_FILES
    scratch_bytes: int = DEFAULT_SCRATCH_BYTES

    def __attrs_post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InvalidJail(faults)

    def _faults(self) -> Iterator[str]:
        if not (_is_number(self.deadline_s) and 0 < self.deadline_s <= MAX_DEADLINE_S):
            yield (
                f"deadline_s must be above 0 and at most {MAX_DEADLINE_S:g} seconds, not "
                f"{shown(self.deadline_s)}"
            )
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not (
                isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
            ):
                yield f"{name} must be an integer from {low} to {high}, not {shown(value)}"


_BOUNDS: Final = (
    ("memory_bytes", 16 << 20, 1 << 50),
    ("processes", 4, 1 << 20),
    ("file_bytes", 1 << 10, 1 << 50),
    ("workspace_bytes", 1 << 20, 1 << 50),
    ("workspace_files", 1, 10_000_000),
    ("output_bytes", 1 << 10, 1 << 30),
    ("open_files", 32, 1 << 20),
    ("scratch_bytes", 1 << 20, 1 << 50),
)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@frozen(kw_only=True)
class FolderMount:
    """A folder of the host, mounted read-only in the workspace, such as a checkout's `.venv`.

    It is also mounted at its own path in the jail, since scripts in it name that.

    Attributes:
        source: The folder, absolute.
        target: Its mount point, relative to the workspace.
    """

    source: Path
    target: str


def _paths(values: Iterable[Path | str]) -> tuple[Path, ...]:
    return tuple(Path(value) for value in values)


def _mounts(values: Iterable[FolderMount]) -> tuple[FolderMount, ...]:
    return tuple(values)


@frozen(kw_only=True)
class JailPolicy:
    """Limits and visible paths of a jailed command.

    Attributes:
        limits: The limits of one command.
        read: Further files and folders that it may read, absolute, each at its own path.
        mounts: Folders that are mounted read-only in the workspace.
        private: Folders that are never shown, in addition to the fixed ones: sessions, secrets.
        environment: Its variables. Nothing else of the host's environment is passed.
        network: Whether it has the host's network. If so it is not sealed: it can send what it
            reads, and it reaches the services and abstract sockets of this machine.
        walls: Whether it runs in a jail. Without walls it can do what this process's user can; only
            a person's word for one run says so, never a configuration. See `NoWalls`.

    Raises:
        InvalidJail: One or more values are refused; `.faults` names each.
    """

    limits: JailLimits = field(factory=JailLimits)
    read: tuple[Path, ...] = field(default=(), converter=_paths)
    mounts: tuple[FolderMount, ...] = field(default=(), converter=_mounts)
    private: tuple[Path, ...] = field(default=(), converter=_paths)
    environment: Mapping[str, str] = field(factory=dict, hash=False, repr=False)
    network: bool = False
    walls: bool = True

    def __attrs_post_init__(self) -> None:
        faults = [*self._path_faults(), *_environment_faults(self.environment)]
        if faults:
            raise InvalidJail(faults)
        object.__setattr__(self, "environment", dict(self.environment))

    def _path_faults(self) -> Iterator[str]:
        for name, paths in (("read", self.read), ("private", self.private)):
            yield from (
                f"{name}: {shown(str(path))} is not absolute"
                for path in paths
                if not path.is_absolute() or "\0" in str(path)
            )
        if len(self.mounts) > MAX_MOUNTS:
            yield f"mounts are {len(self.mounts)}, {MAX_MOUNTS} are allowed"
        targets: list[PurePosixPath] = []
        for mount in self.mounts:
            if not mount.source.is_absolute():
                yield f"mounts: {shown(str(mount.source))} is not absolute"
            target = PurePosixPath(mount.target)
            if not is_inner_path(mount.target):
                yield f"mounts: {shown(mount.target)} is no plain path inside the workspace"
            elif any(_overlap(target, other) for other in targets):
                yield f"mounts: {shown(mount.target)} overlaps another one"
            targets.append(target)


def is_inner_path(path: str) -> bool:
    """Return whether a text is a relative path in its simplest form, without ".."."""
    return bool(path) and "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _environment_faults(environment: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in environment.items():
        if not (isinstance(name, str) and _VARIABLE.fullmatch(name)):
            yield f"environment: {shown(name)} is no name of a variable"
        elif name in _OWN_VARIABLES:
            yield f"environment: {name} is the jail's own"
        elif name in _LOADER_VARIABLES:
            yield f"environment: {name} chooses what every program loads; name the folder in read"
        elif not isinstance(value, str) or "\0" in value:  # never shown: it may be a secret
            yield f"environment: the value of {name} is no text"


class StopReason(StrEnum):
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
    NONE = "none"
    """Not at all: the command had no walls."""


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
    memory_bytes: int = 0
    processes: int = 0
    workspace_bytes: int = 0
    workspace_files: int = 0
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
        sealed: Whether it was cut off from every network. False if the policy gave it one, or no
            walls.
    """

    exit_code: int | None
    started: bool = True
    stopped: StopReason | None = None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)
    usage: JailUsage
    sealed: bool = True

    @property
    def success(self) -> bool:
        """Whether it ran to its end with exit code 0."""
        return self.stopped is None and self.exit_code == 0
