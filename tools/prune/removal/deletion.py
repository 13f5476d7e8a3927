"""Deleting what is out of sight, several directories at a time.

What is deleted waits far more than it computes: for the disk to take back each piece of room (a
file system that is mounted with `discard` and has no journal asks it file by file), for a server,
for what has to be read first. So several directories are emptied at once, and while they are, the
next ones are locked, noted and renamed. The thread that waits for the others helps them.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from attrs import frozen

from ...base.errors import reason_of
from ...base.files import FileSystem, remove_directory
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader

NO_DIRECTORY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What the system answers where no directory has the name (any more)."""


@frozen(kw_only=True)
class Deletion:
    """Deletes directories that are out of sight in a directory of ours.

    Attributes:
        fs: The file system.
        mount_of: Which mount an open directory is reached through.
        cancelled: Whether to stop in the middle; what is left is finished by the next prune.
    """

    fs: FileSystem
    mount_of: Callable[[int], object]
    cancelled: Callable[[], bool]

    def hidden(self, parent_fd: int, hidden: str) -> str | None:
        """Delete what has a name out of sight, a directory or what was put in its place.

        Returns:
            What stands against it, or None if it was deleted.
        """
        try:
            fd = self.fs.open(hidden, DIRECTORY_FLAGS, dir_fd=parent_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in NO_DIRECTORY:
                return reason_of(error)
            try:
                self.fs.unlink(hidden, dir_fd=parent_fd)
            except OSError as cause:
                return reason_of(cause)
            return None
        try:
            if self.mount_of(fd) != self.mount_of(parent_fd):
                return "something is mounted there"
            return self.opened(parent_fd, hidden, fd)
        finally:
            close_reader(self.fs, fd)

    def opened(
        self, parent_fd: int, hidden: str, fd: int, names: Sequence[str] | None = None
    ) -> str | None:
        """Empty a directory by its descriptor and remove its name.

        Args:
            parent_fd: The directory that it is in.
            hidden: Its name there.
            fd: The directory, open.
            names: What was in it when it was looked at, if that is known: with nothing else in it,
                it need not be listed again.

        Returns:
            What stands against it, or None if it was deleted.
        """
        if names is not None and self._is_gone(parent_fd, hidden, fd, names):
            return None
        try:
            left = remove_directory(self.fs, parent_fd, hidden, fd, cancelled=self.cancelled)
            if left:
                cause = left[0].cause
                more = f" and {len(left) - 1} more" if len(left) > 1 else ""
                return f"{left[0].name!r} in it can't be deleted: {cause.strerror or cause}{more}"
        except OSError as error:
            return reason_of(error)
        return None

    def _is_gone(self, parent_fd: int, hidden: str, fd: int, names: Sequence[str]) -> bool:
        """Delete files by their names and the directory; return False at the first that resists."""
        try:
            for name in names:
                self.fs.unlink(name, dir_fd=fd)
            self.fs.rmdir(hidden, dir_fd=parent_fd)
        except OSError:
            return False
        return True


Job = Callable[[], str | None]
"""Deletes something; returns what stands against it, or None if it was deleted."""

DELETERS: Final = 4
"""How many delete at once by default; docs/performance-prune.md says what more gain."""

AHEAD: Final = 1
"""How many of them delete while the owner does something else."""


class _Lot:
    """Jobs that were given together, and what came of each."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.outcomes: list[str | BaseException | None] = [None] * len(jobs)
        self._left = len(jobs)
        self._mutex = threading.Lock()
        self.done = threading.Event()

    def do(self, index: int) -> None:
        try:
            self.outcomes[index] = self.jobs[index]()
        except BaseException as error:  # noqa: BLE001 (raised by the thread that waits for it)
            self.outcomes[index] = error
        with self._mutex:
            self._left -= 1
            if self._left:
                return
        self.done.set()


class DeletionPool:
    """Threads that work off one lot of jobs after another, for one owner.

    The owner is one of them: it does what is left when it waits. So of one deleter no thread is
    started, and everything happens in `finish`, one after the other. Until it waits, only some work
    ahead of it: each system call gives the interpreter's lock away, and a busy owner that has to
    wait for it after every one of its own takes longer than the others save.

    Guarantees: outcomes come in the order of the jobs. After `close` no job runs, and none begins.
    """

    def __init__(
        self,
        count: int = DELETERS,
        *,
        ahead: int = AHEAD,
        start: Callable[[threading.Thread], None] = threading.Thread.start,
    ) -> None:
        """Start nothing yet.

        Args:
            count: How many delete at once, the owner among them; 1 or more.
            ahead: How many of them do not wait until the owner does.
            start: Starts a thread.
        """
        self._begin_thread = start
        self._most = count - 1
        self._ahead = ahead
        self._threads: list[tuple[threading.Thread, threading.Event]] = []
        self._queue: SimpleQueue[tuple[_Lot, int] | None] = SimpleQueue()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._lot: _Lot | None = None
        self._cancelled = False

    @property
    def alone(self) -> bool:
        """Whether the owner is the only one."""
        return self._most == 0

    def cancelled(self) -> bool:
        """Return whether what is being done is to stop; asked by jobs that take long."""
        return self._cancelled

    def begin(self, jobs: Sequence[Job]) -> None:
        """Begin a lot; the one before must be finished."""
        if not jobs:
            return
        self._lot = lot = _Lot(jobs)
        self._start(min(self._most, len(jobs) - 1))
        for index in range(len(jobs)):
            self._queue.put((lot, index))

    def _start(self, wanted: int) -> None:
        with suppress(RuntimeError):  # the system has no more threads: those that are there do it
            while len(self._threads) < wanted:
                name = f"agentforge-prune-{len(self._threads) + 1}"
                work = self._work if len(self._threads) < self._ahead else self._help
                ended = threading.Event()
                # Where the process dies, they die with it, and leave what a killed prune does.
                thread = threading.Thread(target=work, args=(ended,), name=name, daemon=True)
                self._begin_thread(thread)
                self._threads.append((thread, ended))

    def _work(self, ended: threading.Event) -> None:
        try:
            while (task := self._queue.get()) is not None:
                lot, index = task
                lot.do(index)
        finally:
            ended.set()

    def _help(self, ended: threading.Event) -> None:
        """Do what is there whenever the owner waits for it."""
        try:
            while self._calls.get():
                for lot, index in self._rest():
                    lot.do(index)
        finally:
            ended.set()

    def _rest(self) -> Iterator[tuple[_Lot, int]]:
        """Take what was not begun yet, one after another."""
        with suppress(Empty):
            while (task := self._queue.get_nowait()) is not None:
                yield task
            self._queue.put(None)  # it is for a thread that works ahead

    def finish(self) -> list[str | None]:
        """Help with what is left of the lot, and return what came of each of its jobs.

        Raises:
            BaseException: What the first of the jobs that raised anything did.
        """
        if self._lot is None:
            return []
        lot = self._lot
        for _ in self._threads[self._ahead :]:
            self._calls.put(True)
        for _, index in self._rest():
            lot.do(index)
            if isinstance(raised := lot.outcomes[index], BaseException):
                raise raised
        lot.done.wait()
        self._lot = None
        outcomes: list[str | None] = []
        for outcome in lot.outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            outcomes.append(outcome)
        return outcomes

    def all(self, jobs: Sequence[Job]) -> list[str | None]:
        """Do a lot and wait for it."""
        self.begin(jobs)
        return self.finish()

    def close(self) -> None:
        """Drop what was not begun, have what is being done stop, and wait until it has."""
        self._cancelled = True
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _ in self._threads[: self._ahead]:
            self._queue.put(None)
        for _ in self._threads[self._ahead :]:
            self._calls.put(False)
        interrupted: BaseException | None = None
        for _, ended in self._threads:
            # They must not outlive the descriptors that they work with. `join` that is interrupted
            # may take a thread for ended that is not (https://github.com/python/cpython/issues/90882).
            while not ended.is_set():
                try:
                    ended.wait()
                except BaseException as error:
                    if interrupted is not None:
                        raise  # asked twice, we leave what does not end to the end of the process
                    interrupted = error
        while self._threads:
            self._threads.pop()[0].join()
        if interrupted is not None:
            raise interrupted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
