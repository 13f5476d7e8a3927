"""Who owns a lock file, and whether that process still lives.

A pid alone identifies no process for long: pids are reused, and mean another process after a
restart, on another machine and in another container. So an owner is a pid with the start time of
its process, the boot of the kernel, the pid namespace and the machine.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import socket
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from attrs import frozen

MAX_LOCK_BYTES: Final = 4096
_PROC: Final = Path("/proc")
_Start = TypeVar("_Start", int, float)
_REUSE_SLACK_S: Final = 2.0
"""How much younger than its own lock a process may seem: one of the two times is in ticks since a
boot whose own time is known only to the second."""
_UNKNOWN: Final = 0
"""The number of a process that lives and whose start can't be found out."""
_EXACT: Final = (1 << 53) - 1
"""The largest number that every reader of JSON takes as it is."""


class OwnerVerdict(StrEnum):
    """What is known about the owner of a lock file that another process made."""

    ALIVE = "alive"
    DEAD = "dead owner"
    REUSED = "reused pid"
    REBOOTED = "machine was restarted"
    ELSEWHERE = "another host or container"
    EMPTY = "empty"
    GARBAGE = "garbage"

    @property
    def is_dead(self) -> bool:
        """Whether the owner has certainly ended."""
        return self in {OwnerVerdict.DEAD, OwnerVerdict.REUSED, OwnerVerdict.REBOOTED}


class Processes(Protocol):
    """The processes of a machine."""

    def start_time(self, pid: int) -> int | None:
        """Return a number that tells a process from a later one of its pid; None if there is none.

        0 if it lives and no such number can be found out.
        """
        ...

    def start_moment(self, pid: int) -> float | None:
        """Return when a process started, in seconds since the epoch; None if there is none.

        0 if it lives and its start can't be found out.
        """
        ...

    @property
    def here(self) -> tuple[str, str, str]:
        """The machine, the boot of its kernel, the pid namespace."""
        ...


@cache
def _machine() -> str:
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            found = Path(name).read_text().strip()
        except (OSError, ValueError):
            continue
        if found:
            return found
    return socket.gethostname()


@cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return "unknown"


def _lives(pid: int) -> bool:
    """Return whether a process has a pid; a zombie does, too."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    except OverflowError:
        return False
    return True


@frozen(kw_only=True)
class OsProcesses:
    """The processes of this machine, from /proc; where that is missing, by psutil.

    Attributes:
        proc: Where the kernel tells of processes.
        psutil: Loads psutil.
    """

    _proc: Path = _PROC
    _psutil: Callable[[], Any] = lambda: importlib.import_module("psutil")

    def start_time(self, pid: int) -> int | None:
        """See `Processes`; field 22 of /proc/PID/stat, see proc_pid_stat(5).

        By psutil it is a process's identity, made of its pid and its start: the time of the start
        itself moves with the machine's clock.
        """
        try:
            content = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:  # of one that lives: hidden, or no descriptor is left to read it by
            if self._tells():
                return _UNKNOWN if _lives(pid) else None
            return self._ask(pid, lambda process: hash(process) & _EXACT, _UNKNOWN)
        fields = content.rpartition(b")")[2].split()  # its name may contain spaces and parentheses
        if len(fields) < 20 or fields[0] in {b"Z", b"X"}:
            return None  # a zombie runs nothing
        return int(fields[19])

    def _tells(self) -> bool:
        return os.access(self._proc / "self/stat", os.R_OK)

    def _ask(self, pid: int, start: Callable[[Any], _Start], unknown: _Start) -> _Start | None:
        """Return what psutil knows of a living process's start."""
        try:
            psutil = self._psutil()
        except ImportError:
            return unknown if _lives(pid) else None
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else start(process)
        except psutil.NoSuchProcess:  # a zombie, too
            return None
        except psutil.Error:
            return unknown

    def start_moment(self, pid: int) -> float | None:
        """See `Processes`."""
        if not self._tells():
            return self._ask(pid, lambda process: float(process.create_time()), float(_UNKNOWN))
        ticks = self.start_time(pid)
        if ticks is None:
            return None
        try:
            lines = (self._proc / "stat").read_bytes().splitlines()
        except OSError:
            return None
        for line in lines:
            if line.startswith(b"btime "):
                return int(line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
        return None

    @property
    def here(self) -> tuple[str, str, str]:
        """See `Processes`."""
        try:
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = "unknown"
        return _machine(), _boot(), namespace


@frozen
class Owner:
    """The process that a lock file names.

    Attributes:
        pid: Its pid, in its own pid namespace.
        start_time: Tells it from a later process of its pid, see `Processes`; None where that is
            not known.
        machine: Its machine's id, or None where that is not known.
        boot: The boot of its kernel.
        namespace: Its pid namespace.
        token: Distinguishes two locks of one process.
    """

    pid: int
    start_time: int | None = None
    machine: str | None = None
    boot: str | None = None
    namespace: str | None = None
    token: str | None = None

    @classmethod
    def current(cls, processes: Processes, token: str) -> Owner:
        """Return the owner that stands for this process."""
        pid = os.getpid()
        return cls(pid, processes.start_time(pid), *processes.here, token)

    def document(self) -> dict[str, object]:
        """Return this owner as a JSON object."""
        return {
            "pid": self.pid,
            "startTime": self.start_time,
            "machine": self.machine,
            "boot": self.boot,
            "pidNamespace": self.namespace,
            "token": self.token,
        }

    def encode(self) -> bytes:
        """Return the lock file's content: the pid on a line of its own, then the owner as JSON.

        A program that only does `parseInt(content)` and `kill(pid, 0)` reads the pid of a living
        process, and waits; of JSON alone it would read no number, and break the lock.
        """
        return f"{self.pid}\n{json.dumps(self.document())}\n".encode()


def parse_owner(content: bytes) -> Owner | None:
    """Parse a lock file; None if it names no owner.

    It must be ours (a pid, then JSON with the same pid), or hold only a pid.
    """
    try:
        text = content.decode("ascii").strip()
        first, _, rest = text.partition("\n")
        pid = int(first) if first.isdecimal() and len(first) <= 10 else 0
        if pid <= 0 or not rest:
            return Owner(pid=pid) if pid > 0 else None
        owner = owner_of(json.loads(rest))
    except (ValueError, RecursionError):
        return None
    return owner if owner is not None and owner.pid == pid else None


def owner_of(found: object) -> Owner | None:
    """Parse a document of `Owner.document`; None if it is not one."""
    if not isinstance(found, dict):
        return None
    pid, start = found.get("pid"), found.get("startTime")
    texts = [found.get(key) for key in ("machine", "boot", "pidNamespace", "token")]
    if type(pid) is not int or pid <= 0 or not (start is None or type(start) is int):
        return None
    return Owner(pid, start, *texts) if all(isinstance(text, str) for text in texts) else None


def judge(content: bytes, *, written_at: float, processes: Processes) -> OwnerVerdict:
    """Judge the owner of a lock file.

    Args:
        content: The file's content.
        written_at: When it was written, in seconds since the epoch, for files that hold only a pid.
        processes: The machine's processes.
    """
    if not content.strip():
        return OwnerVerdict.EMPTY
    owner = parse_owner(content)
    if owner is None:
        return OwnerVerdict.GARBAGE
    if owner.machine is None:
        return _judge_pid(owner.pid, written_at, processes)
    return judge_owner(owner, processes=processes)


def judge_owner(owner: Owner, *, processes: Processes) -> OwnerVerdict:
    """Judge an owner that names its machine."""
    machine, boot, namespace = processes.here
    if owner.machine != machine:
        return OwnerVerdict.ELSEWHERE
    if owner.boot != boot:
        return OwnerVerdict.REBOOTED
    return _judge_here(owner, processes) if owner.namespace == namespace else OwnerVerdict.ELSEWHERE


def _judge_pid(pid: int, written_at: float, processes: Processes) -> OwnerVerdict:
    began = processes.start_moment(pid)
    if began is None:
        return OwnerVerdict.DEAD
    return OwnerVerdict.REUSED if began > written_at + _REUSE_SLACK_S else OwnerVerdict.ALIVE


def _judge_here(owner: Owner, processes: Processes) -> OwnerVerdict:
    start = processes.start_time(owner.pid)
    if start is None:
        return OwnerVerdict.DEAD
    if owner.start_time and start and start != owner.start_time:
        return OwnerVerdict.REUSED
    return OwnerVerdict.ALIVE


def describe(content: bytes, verdict: OwnerVerdict) -> str:
    """Describe the owner of a lock file for a person."""
    owner = parse_owner(content)
    if owner is None:
        return f"a lock file that is {verdict.value}"
    return f"pid {owner.pid} ({verdict.value})"
