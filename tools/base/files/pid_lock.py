"""A lock that other programs recognise by a lock file with its owner's pid in it.

The kernel's lock on the directory excludes our own processes and dies with its owner; the lock
files are for programs that know only those (docs/decisions/0006-pid-lock-files-beside-flock.md).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol, Self

from attrs import define, field, frozen

from .atomic_file import random_token
from .errors import LockTimeout
from .file_lock import DirectoryLock, Patience, unlock
from .filesystem import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, FileSystem, close_reader
from .process_owner import (
    MAX_LOCK_BYTES,
    OsProcesses,
    Owner,
    OwnerVerdict,
    Processes,
    describe,
    judge,
    parse_owner,
)
from .regular_file import read_descriptor

_NO_FILE: Final = b"?"
"""The content recorded for an entry that is not a regular file."""
_FIRST_PAUSE_S: Final = 0.001

_held: set[int] = set()


def _after_fork() -> None:
    """Close the child's copies after a fork, or the locks would outlive their owner."""
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)


@frozen
class _LockFile:
    """A lock file as read. Its inode alone does not identify it: inodes are reused at once."""

    inode: int
    device: int
    written_at: float
    content: bytes
    is_directory: bool = False

    @classmethod
    def of(cls, status: os.stat_result, content: bytes) -> _LockFile:
        return cls(
            status.st_ino,
            status.st_dev,
            status.st_mtime,
            content,
            is_directory=stat.S_ISDIR(status.st_mode),
        )


LockEvent = Literal["lock_broken", "lock_left_behind", "lock_lost"]
"""A lock file was removed in place of its owner (`reason`, `holder`); its owner could not remove it
(`error`); it belongs to another owner now (`path`)."""


class Report(Protocol):
    """Observes lock files that are not created and removed normally by their owner."""

    def __call__(self, event: LockEvent, /, **fields: str) -> None:
        """Observe an event."""


def _report_nothing(_: LockEvent, /, **__: str) -> None:
    return


def _is_none(_: str) -> bool:
    return False


def _of_this_machine(given: Processes | None) -> Processes:
    return given if given is not None else OsProcesses()


@define(eq=False)
class PidLock:
    """A short-term exclusive right to change a directory.

    Guarantees: while it is held, no other `PidLock` holds the same directory, in any thread or
    process of this machine, and `fd` is that very directory. A lock file has its content from its
    first instant (it is written under another name and linked). The next owner finds and removes
    what a killed owner left behind. A lock file is only ever removed by its owner, or after its
    owner has ended; a wait that times out removes nothing.

    A lock file counts as left behind when its owner is dead, its pid belongs to a younger process,
    or the machine was restarted since; and, since its makers hold `flock` as long as it exists,
    when it is one of ours and of this boot. Where that can't be decided, because it is empty,
    garbage or of another host, it must stay unchanged for `grace_s` of our own clock.

    Args:
        fs: The file system.
        path: The directory.
        names: The lock files in it, in the order of their creation; the same order for all users of
            several.
        timeout_s: How long to wait for others, in seconds.
        grace_s: How long a lock file of an unknown owner is respected, in seconds.
        is_leftover: Whether to remove an entry of the directory as a killed owner's.
        report: Observes locks that were broken or lost.
        token: Returns fresh random texts.
        processes: The machine's processes; the real ones if None.
        monotonic: The clock of the waits.
        sleep: Pauses between two attempts.
    """

    _fs: FileSystem
    _path: Path
    _names: Sequence[str]
    _timeout_s: float = field(default=10.0, kw_only=True)
    _grace_s: float = field(default=2.0, kw_only=True)
    _is_leftover: Callable[[str], bool] = field(default=_is_none, kw_only=True)
    _report: Report = field(default=_report_nothing, kw_only=True)
    _token: Callable[[], str] = field(default=random_token, kw_only=True)
    _processes: Processes = field(default=None, converter=_of_this_machine, kw_only=True)
    _monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _sleep: Callable[[float], None] = field(default=time.sleep, kw_only=True)
    _mine: dict[str, bytes] = field(factory=dict, init=False)
    _prefix: str = field(init=False)
    _directory: DirectoryLock = field(init=False)
    fd: int = field(default=-1, init=False)  # the directory, open, while the lock is held

    def __attrs_post_init__(self) -> None:
        self._prefix = f".{self._names[0]}."
        self._directory = DirectoryLock(
            self._fs,
            self._path,
            timeout_s=self._timeout_s,
            monotonic=self._monotonic,
            sleep=self._sleep,
        )

    def acquire(self) -> Self:
        """Take the lock.

        Raises:
            FileNotFoundError: The directory does not exist (any more).
            LockTimeout: Another owner held it for `timeout_s`.
            WriteError: The directory can't be locked.
            OSError: The lock file could not be written.
        """
        deadline = self._monotonic() + self._timeout_s
        try:
            self._directory.acquire()
        except LockTimeout as error:
            raise self._busy(self._look_at_path()) from error
        self.fd = self._directory.fd
        _held.add(self.fd)
        try:
            self._sweep()
            for name in self._names:
                self._take_file(name, deadline)
        except BaseException:
            self._give_back()
            raise
        return self

    def release(self) -> None:
        """Release the lock; does nothing when it is not held."""
        if self.fd >= 0:
            self._give_back()

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _give_back(self) -> None:
        try:
            while self._mine:
                self._remove_own(*self._mine.popitem())
        finally:
            _held.discard(self.fd)
            unlock(self._fs, self.fd)  # a child forked in between has a copy of the descriptor
            self.fd = -1
            self._directory.release()

    def _sweep(self) -> None:
        """Remove killed owners' temporary files; no other owner is active now."""
        for name in self._fs.listdir(self.fd):
            if name.startswith(self._prefix) or self._is_leftover(name):
                with suppress(FileNotFoundError, IsADirectoryError):
                    self._fs.unlink(name, dir_fd=self.fd)

    def _take_file(self, name: str, deadline: float) -> None:
        since: dict[_LockFile, float] = {}
        patience = Patience(
            max(deadline - self._monotonic(), 0.0),
            monotonic=self._monotonic,
            sleep=self._sleep,
            first_s=_FIRST_PAUSE_S,
        )
        while True:
            if self._create(name):
                return
            seen = self._look(self.fd, name)
            if seen is None:
                continue
            now = self._monotonic()
            first = since.setdefault(seen, now)
            verdict = judge(seen.content, written_at=seen.written_at, processes=self._processes)
            reason = self._reason_to_break(verdict, seen, unchanged_s=now - first)
            if reason is not None:
                self._break(name, seen, reason)
                continue
            if not patience.pause():
                raise self._busy(seen)

    def _reason_to_break(
        self, verdict: OwnerVerdict, seen: _LockFile, *, unchanged_s: float
    ) -> str | None:
        if verdict.is_dead:
            return verdict.value
        if verdict is OwnerVerdict.ALIVE:
            owner = parse_owner(seen.content)
            ours = owner is not None and owner.token is not None
            return "its owner let go without removing it" if ours else None
        if unchanged_s >= self._grace_s:
            return f"{verdict.value}, unchanged for {self._grace_s:g} s"
        return None

    def _create(self, name: str) -> bool:
        """Create a lock file; return False if there is one."""
        temporary = f"{self._prefix}{self._token()}"
        content = Owner.current(self._processes, self._token()).encode()
        fd = self._fs.open(temporary, CREATE_FLAGS, 0o600, dir_fd=self.fd)
        try:
            try:  # not synced: after a power failure it is of an earlier boot, and broken
                self._fs.writev(fd, [content])
            finally:
                self._fs.close(fd)
            self._fs.link(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            self._mine[name] = content
        except FileExistsError:
            return False
        finally:
            self._fs.unlink(temporary, dir_fd=self.fd)
        return True

    def _look(self, directory_fd: int, name: str) -> _LockFile | None:
        """Return the current lock file, or None if there is none."""
        try:
            fd = self._fs.open(name, READ_FLAGS, dir_fd=directory_fd)
        except FileNotFoundError:
            return None
        except OSError:  # a link, a socket: it names no owner
            try:
                return _LockFile.of(self._fs.stat(name, dir_fd=directory_fd), _NO_FILE)
            except FileNotFoundError:
                return None
        try:
            status = self._fs.fstat(fd)
            content = _NO_FILE
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_LOCK_BYTES:
                content = read_descriptor(self._fs, fd, status.st_size)
            return _LockFile.of(status, content)
        finally:
            close_reader(self._fs, fd)

    def _look_at_path(self) -> _LockFile | None:
        with suppress(OSError):
            fd = self._fs.open(str(self._path), DIRECTORY_FLAGS)
            try:
                return self._look(fd, self._names[0])
            finally:
                close_reader(self._fs, fd)
        return None

    def _break(self, name: str, seen: _LockFile, reason: str) -> None:
        """Remove a lock file that was left behind, unless another one has replaced it."""
        if self._put_away(name, lambda found: found == seen):
            self._report(
                "lock_broken",
                reason=reason,
                holder=seen.content[:200].decode("utf-8", "backslashreplace"),
            )

    def _remove_own(self, name: str, mine: bytes) -> None:
        try:
            done = self._put_away(name, lambda found: found.content == mine)
        except OSError as error:
            self._report("lock_left_behind", error=str(error))
            return
        if not done and self._path.is_dir():  # otherwise it was removed with its directory
            self._report("lock_lost", path=str(self._path / name))

    def _put_away(self, name: str, is_it: Callable[[_LockFile], bool]) -> bool:
        """Remove a lock file if it is the expected one.

        It is renamed and checked again under its new name, which nothing else uses; if it is not
        the expected one, because a program without `flock` interfered, it gets its name back.
        """
        seen = self._look(self.fd, name)
        if seen is None or not is_it(seen):
            return False
        aside = f"{self._prefix}{self._token()}"
        try:
            self._fs.rename(name, aside, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileNotFoundError:
            return False
        seen = self._look(self.fd, aside)
        if seen is None:
            return False
        if seen.is_directory:
            self._fs.rmdir(aside, dir_fd=self.fd)
            return True
        done = is_it(seen)
        if not done:
            with suppress(FileExistsError):
                self._fs.link(aside, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self._fs.unlink(aside, dir_fd=self.fd)
        return done

    def _busy(self, seen: _LockFile | None) -> LockTimeout:
        holder = None
        if seen is not None:
            verdict = judge(seen.content, written_at=seen.written_at, processes=self._processes)
            holder = describe(seen.content, verdict)
        return LockTimeout(path=self._path, holder=holder, timeout_s=self._timeout_s)
