"""Deleting directories that are out of sight, several at a time.

Deletion waits far more than it computes: for the disk to reclaim each piece of room (a file system
that is mounted with `discard` and has no journal does so file by file), for a server, for what has
to be read first. So several directories are emptied at once, and in the meantime the next ones are
locked, logged and renamed. The thread that waits for the others helps them.
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
"""System errors where a name has no directory (any more)."""


@frozen(kw_only=True)
class Deletion:
    """Deletes directories that are out of sight in a directory of ours.

    Attributes:
        fs: The file system.
        mount_of: Returns the mount through which an open directory is reached.
        cancelled: Whether to stop in the middle; the next prune finishes the rest.
    """

    fs: FileSystem
    mount_of: Callable[[int], object]
    cancelled: Callable[[], bool]

    def hidden(self, parent_fd: int, hidden: str) -> str | None:
        """Delete an entry with a name out of sight: a directory, or what was put in its place.

        Returns:
            What prevented it, or None if it was deleted.
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
            names: Its entries when it was inspected, if known: if there are no others, it need not
                be listed again.

        Returns:
            What prevented it, or None if it was deleted.
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
        """Delete files by their names, and the directory; return False at the first failure."""
        try:
            for name in names:
                self.fs.unlink(name, dir_fd=fd)
            self.fs.rmdir(hidden, dir_fd=parent_fd)
        except OSError:
            return False
        return True


Job = Callable[[], str | None]
"""Deletes something; returns what prevented it, or None if it was deleted."""

DELETERS: Final = 4
"""The default number of deleters at once; docs/measurements/prune.md says what more gain."""

AHEAD: Final = 1
"""How many of them delete while the owner does something else."""


class _Lot:
    """Jobs that were submitted together, and the outcome of each."""

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

    The owner is one of them: while it waits, it does what is left. So one deleter needs no thread,
    and everything happens in `finish`, in order. Until the owner waits, only some threads work
    ahead: each system call releases the interpreter's lock, and a busy owner that has to wait for
    it after every call of its own loses more time than the others save.

    Guarantees: outcomes come in the order of the jobs. After `close` no job runs, and none starts.
    """

    def __init__(
        self,
        count: int = DELETERS,
        *,
        ahead: int = AHEAD,
        start: Callable[[threading.Thread], None] = threading.Thread.start,
    ) -> None:
        """Remember the settings; no thread starts yet.

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
        """Whether the owner is the only deleter."""
        return self._most == 0

    def cancelled(self) -> bool:
        """Return whether running jobs are to stop; long jobs ask."""
        return self._cancelled

    def begin(self, jobs: Sequence[Job]) -> None:
        """Start a lot; the one before must be finished."""
        if not jobs:
            return
        self._lot = lot = _Lot(jobs)
        self._start(min(self._most, len(jobs) - 1))
        for index in range(len(jobs)):
            self._queue.put((lot, index))

    def _start(self, wanted: int) -> None:
        with suppress(RuntimeError):  # the system has no more threads: the existing ones do it
            while len(self._threads) < wanted:
                name = f"agentforge-prune-{len(self._threads) + 1}"
                work = self._work if len(self._threads) < self._ahead else self._help
                ended = threading.Event()
                # If the process dies, these threads die with it, and leave what a killed prune
                # leaves.
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
        """Do the available jobs whenever the owner waits."""
        try:
            while self._calls.get():
                for lot, index in self._rest():
                    lot.do(index)
        finally:
            ended.set()

    def _rest(self) -> Iterator[tuple[_Lot, int]]:
        """Yield the jobs that have not started, one after another."""
        with suppress(Empty):
            while (task := self._queue.get_nowait()) is not None:
                yield task
            self._queue.put(None)  # for a thread that works ahead

    def finish(self) -> list[str | None]:
        """Help with the rest of the lot, and return the outcome of each of its jobs.

        Raises:
            BaseException: The exception of the first job that raised one.
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
        """Run a lot and wait for it."""
        self.begin(jobs)
        return self.finish()

    def close(self) -> None:
        """Drop jobs that have not started, ask running ones to stop, and wait until they have."""
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
            # The threads must not outlive the descriptors that they use. An interrupted `join` may
            # take a running thread for ended (https://github.com/python/cpython/issues/90882).
            while not ended.is_set():
                try:
                    ended.wait()
                except BaseException as error:
                    if interrupted is not None:
                        raise  # asked twice: leave the rest to the process's end
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
