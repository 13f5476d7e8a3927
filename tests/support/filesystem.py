"""File systems that record, fail, or forbid the system calls that go through the port."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from agentforge_sessions.base.files import FileSystem, OsFileSystem

Buffers = Sequence[bytes | bytearray | memoryview]

OPERATIONS = (
    "open",
    "close",
    "writev",
    "pread",
    "fsync",
    "ftruncate",
    "fstat",
    "stat",
    "rename",
    "link",
    "unlink",
    "rmdir",
    "mkdir",
    "listdir",
    "flock",
)


@frozen
class Call:
    """One system call: what it is, what it is about, and how many bytes it moved."""

    operation: str
    path: str
    size: int = 0
    writing: bool = False


Plan = Callable[[int, Call], int | None]
"""Given a call's number (from 0) and the call: the errno that it fails with, or None."""


def nth_call(number: int, errno: int) -> Plan:
    """Fail the call of this number, counted over all operations."""
    return lambda index, _: errno if index == number else None


def calls(numbers: set[int], errno: int) -> Plan:
    """Fail the calls of these numbers."""
    return lambda index, _: errno if index in numbers else None


def every_call_from(number: int, errno: int, operations: Sequence[str] = OPERATIONS) -> Plan:
    """Fail this call and all later ones of these operations."""
    return lambda index, call: errno if index >= number and call.operation in operations else None


def nth_of(operation: str, number: int, errno: int) -> Plan:
    """Fail the call of this number among those of one operation."""
    seen = 0

    def plan(_: int, call: Call) -> int | None:
        nonlocal seen
        if call.operation != operation:
            return None
        seen += 1
        return errno if seen - 1 == number else None

    return plan


class FaultyFileSystem:
    """The real system calls, recorded, some of them failing as a test asks.

    A call that fails changes nothing, except `close`, which always closes, as Linux does.
    """

    def __init__(
        self,
        *,
        plan: Plan | None = None,
        largest_write: int | None = None,
        before: Callable[[Call], object] | None = None,
        real: FileSystem | None = None,
    ) -> None:
        self.real: FileSystem = real if real is not None else OsFileSystem()
        self.plan = plan
        self.largest_write = largest_write
        self.before = before
        self.trace: list[Call] = []
        self.failed: list[Call] = []
        self.names: dict[int, str] = {}
        self.bytes_read = 0

    def begin(self, plan: Plan | None = None) -> None:
        """Forget the trace and follow another plan from here on."""
        self.plan = plan
        self.trace = []
        self.failed = []
        self.bytes_read = 0

    def steps(self, base: Path) -> list[str]:
        """Tell the trace as "operation path" lines, paths relative to `base`."""
        return [
            f"{call.operation} {os.path.relpath(call.path, base)}".replace(" .", " base", 1)
            if os.path.relpath(call.path, base) == "."
            else f"{call.operation} {os.path.relpath(call.path, base)}"
            for call in self.trace
        ]

    @property
    def open_descriptors(self) -> dict[int, str]:
        """The descriptors that were opened and not closed."""
        return dict(self.names)

    def _name(self, path: str, dir_fd: int | None) -> str:
        return path if dir_fd is None else os.path.join(self.names.get(dir_fd, "?"), path)

    def _step(self, operation: str, path: str, *, size: int = 0, writing: bool = False) -> Call:
        call = Call(operation, path, size, writing)
        if self.before is not None:
            self.before(call)
        index = len(self.trace)
        self.trace.append(call)
        number = None if self.plan is None else self.plan(index, call)
        if number is not None:
            self.failed.append(call)
            raise OSError(number, os.strerror(number), path)
        return call

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        name = self._name(path, dir_fd)
        self._step("open", name, writing=bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)))
        fd = self.real.open(path, flags, mode, dir_fd=dir_fd)
        self.names[fd] = name
        return fd

    def close(self, fd: int) -> None:
        name = self.names.pop(fd, "?")
        self.real.close(fd)
        self._step("close", name)

    def writev(self, fd: int, buffers: Buffers) -> int:
        self._step("writev", self.names.get(fd, "?"), size=sum(map(len, buffers)), writing=True)
        if self.largest_write is None:
            return self.real.writev(fd, buffers)
        whole = b"".join(bytes(buffer) for buffer in buffers)
        return self.real.writev(fd, [whole[: self.largest_write]])

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self._step("pread", self.names.get(fd, "?"), size=length)
        data = self.real.pread(fd, length, offset)
        self.bytes_read += len(data)
        return data

    def fsync(self, fd: int) -> None:
        self._step("fsync", self.names.get(fd, "?"))
        self.real.fsync(fd)

    def ftruncate(self, fd: int, length: int) -> None:
        self._step("ftruncate", self.names.get(fd, "?"), size=length, writing=True)
        self.real.ftruncate(fd, length)

    def fstat(self, fd: int) -> os.stat_result:
        self._step("fstat", self.names.get(fd, "?"))
        return self.real.fstat(fd)

    def stat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
        self._step("stat", self._name(path, dir_fd))
        return self.real.stat(path, dir_fd=dir_fd)

    def rename(
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        self._step("rename", self._name(target, dst_dir_fd), writing=True)
        self.real.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._step("link", self._name(target, dst_dir_fd), writing=True)
        self.real.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        self._step("unlink", self._name(path, dir_fd), writing=True)
        self.real.unlink(path, dir_fd=dir_fd)

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        self._step("rmdir", self._name(path, dir_fd), writing=True)
        self.real.rmdir(path, dir_fd=dir_fd)

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:
        self._step("mkdir", self._name(path, dir_fd), writing=True)
        self.real.mkdir(path, mode, dir_fd=dir_fd)

    def listdir(self, fd: int) -> list[str]:
        self._step("listdir", self.names.get(fd, "?"))
        return self.real.listdir(fd)

    def flock(self, fd: int, operation: int) -> None:
        self._step("flock", self.names.get(fd, "?"))
        self.real.flock(fd, operation)


class Touched(AssertionError):
    """A call reached a file system that nobody may touch."""


class ForbiddenFileSystem(FaultyFileSystem):
    """A file system on which every call is refused before it does anything, and remembered."""

    def _step(self, operation: str, path: str, *, size: int = 0, writing: bool = False) -> Call:
        self.trace.append(Call(operation, path, size, writing))
        raise Touched(f"{operation} {path!r}")

    def close(self, fd: int) -> None:
        self._step("close", str(fd))
