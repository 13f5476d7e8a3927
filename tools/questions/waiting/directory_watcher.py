"""Reports from the file system that a directory changed.

One thread of the process watches all directories that are waited for, so that a thousand waits cost
one inotify instance. It sleeps in the kernel until something happens. Where nothing is reported (a
network file system, no inotify instances left), each wait looks for itself at its own interval.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import frozen

from ...base.event_log import get_logger

_CLOSE_WRITE: Final = 0x0000_0008
_MOVED_FROM: Final = 0x0000_0040
_MOVED_TO: Final = 0x0000_0080
_DELETE: Final = 0x0000_0200
_DELETE_SELF: Final = 0x0000_0400
_MOVE_SELF: Final = 0x0000_0800
_OVERFLOW: Final = 0x0000_4000
_ONLYDIR: Final = 0x0100_0000
_WATCHED: Final = (
    _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
)
"""Files are replaced by renaming, or written in place and closed; opening a file is no change."""
_HEADER: Final = struct.Struct("iIII")
_BUFFER_BYTES: Final = 64 * 1024


@frozen
class FolderEvent:
    """One event.

    Attributes:
        watch: The number of the directory it is about; -1 if events were lost.
        name: The entry of the directory that changed; empty if it is the directory itself.
    """

    watch: int
    name: str


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def is_available() -> bool:
    """Return whether this system has inotify."""
    try:
        return hasattr(_libc(), "inotify_init1")
    except OSError:
        return False


class Inotify:
    """One inotify instance: a descriptor that becomes readable when a watched directory changes.

    `add` and `remove` may be called from any thread while another one reads.
    """

    def __init__(self) -> None:
        """Open an instance.

        Raises:
            OSError: The system has no inotify, or this user's instances (128 by default) are taken.
        """
        if not is_available():
            raise OSError("this system has no inotify")
        self.fd = _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, path: str) -> int:
        """Watch a directory; return its number, the same for the same directory.

        Raises:
            OSError: It is missing, is no directory, or this user's watches are taken.
        """
        return _checked(
            _libc().inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(_WATCHED))
        )

    def remove(self, watch: int) -> None:
        """Stop watching a directory; does nothing to one that was deleted."""
        _libc().inotify_rm_watch(self.fd, watch)

    def read(self) -> list[FolderEvent]:
        """Return the events that have arrived; an empty list if there are none.

        Raises:
            OSError: The instance was closed.
        """
        try:
            data = os.read(self.fd, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        return list(_changes(data))

    def close(self) -> None:
        """Release the instance, with everything it watches."""
        os.close(self.fd)


def _changes(data: bytes) -> Iterator[FolderEvent]:
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
        yield FolderEvent(-1 if mask & _OVERFLOW else watch, name)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


THREAD_NAME: Final = "agentforge-questions-watcher"

_log = get_logger("agentforge.questions")

OnChange = Callable[[], None]
"""Called after a change."""
Start = Callable[[threading.Thread], None]
"""Starts a thread, or raises `RuntimeError` if the system refuses one."""


class Watcher(Protocol):
    """Reports that something in a directory changed."""

    def watching(self, path: Path, on_change: OnChange) -> AbstractContextManager[None]:
        """Return a block; while it runs, `on_change` is called after each change in `path`.

        Calls come from another thread, perhaps without a change. A change may be missed. Hidden
        names and lock files are not reported.
        """
        ...


class NoWatcher:
    """Reports nothing: each wait looks for itself."""

    @contextmanager
    def watching(self, path: Path, on_change: OnChange) -> Iterator[None]:  # noqa: ARG002
        """See `Watcher`."""
        yield


def _is_news(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(".lock")


def _until_readable(descriptors: Sequence[int]) -> list[int]:
    """Sleep until one of some descriptors can be read; return the readable ones."""
    poll = select.poll()
    for fd in descriptors:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll()]


class _InotifyThread:
    """An inotify instance and the thread that passes on its events, until nothing is watched."""

    def __init__(self, wait: Callable[[Sequence[int]], list[int]], start: Start) -> None:
        self._wait = wait
        self._callbacks: dict[int, list[OnChange]] = {}
        self._lock = threading.Lock()
        self._inotify = Inotify()
        try:
            self._end_fd, self._ending_fd = os.pipe()
        except BaseException:
            self._inotify.close()
            raise
        try:
            start(threading.Thread(target=self._run, name=THREAD_NAME, daemon=True))
        except RuntimeError:  # the system refused it
            self.abandon()
            raise
        except BaseException:
            # A signal's exception came while we waited for the thread's first step: the thread
            # runs, and closes its descriptors. If we closed them here as well, their numbers could
            # be other files' by then.
            self.end()
            raise

    def add(self, path: str, on_change: OnChange) -> int:
        """Report changes in a directory from now on; return its number."""
        with self._lock:  # so that no event is looked up before its listener is there
            watch = self._inotify.add(path)
            self._callbacks.setdefault(watch, []).append(on_change)
        return watch

    def remove(self, watch: int, on_change: OnChange) -> None:
        """Stop reporting changes."""
        with self._lock:
            listeners = self._callbacks.get(watch, [])
            if on_change in listeners:
                listeners.remove(on_change)
            if not listeners and self._callbacks.pop(watch, None) is not None:
                self._inotify.remove(watch)

    def end(self) -> None:
        """End the thread, which closes everything."""
        os.write(self._ending_fd, b"x")

    def abandon(self) -> None:
        """Close the descriptors if no thread does: it never ran, or only in a fork's parent."""
        self._inotify.close()
        os.close(self._end_fd)
        os.close(self._ending_fd)

    def _run(self) -> None:
        try:
            while self._end_fd not in self._wait([self._inotify.fd, self._end_fd]):
                self._pass_on(self._inotify.read())
        finally:
            with self._lock:
                self.abandon()

    def _pass_on(self, changes: Iterable[FolderEvent]) -> None:
        with self._lock:
            watches = {one.watch for one in changes if _is_news(one.name)}
            if -1 in watches:  # events were lost: any directory may have changed
                watches = set(self._callbacks)
            listeners = [one for watch in watches for one in self._callbacks.get(watch, ())]
        for on_change in listeners:
            on_change()


class InotifyWatcher:
    """Watches directories with inotify, all of them from one thread that sleeps meanwhile.

    The thread lives while something is watched. May be used from any thread; after a fork the
    child starts with nothing watched.
    """

    def __init__(
        self,
        *,
        wait: Callable[[Sequence[int]], list[int]] = _until_readable,
        start: Start = threading.Thread.start,
    ) -> None:
        """Store the settings; nothing is watched yet.

        Args:
            wait: Sleeps until one of some descriptors can be read, and returns the readable ones.
            start: Starts the thread.
        """
        self._wait = wait
        self._start = start
        self._thread: _InotifyThread | None = None
        self._complained = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._listeners = 0
        self._thread = None

    def forget(self) -> None:
        """Start over, with nothing watched: a forked child does so, since it has no thread."""
        if self._thread is not None:
            with suppress(OSError):
                self._thread.abandon()
        self._begin_anew()

    @contextmanager
    def watching(self, path: Path, on_change: OnChange) -> Iterator[None]:
        """See `Watcher`; no change from the beginning of the block is missed."""
        added = self._add(path, on_change)
        try:
            yield
        finally:
            if added is not None:
                self._remove(*added, on_change)

    def _add(self, path: Path, on_change: OnChange) -> tuple[_InotifyThread, int] | None:
        with self._lock:
            try:
                if self._thread is None:
                    self._thread = _InotifyThread(self._wait, self._start)
                watch = self._thread.add(str(path), on_change)
            except (OSError, RuntimeError) as error:  # a thread may be refused, too
                self._complain(path, error)
                self._end_if_unused()
                return None
            self._listeners += 1
            return self._thread, watch

    def _complain(self, path: Path, error: Exception) -> None:
        if isinstance(error, FileNotFoundError | NotADirectoryError) or self._complained:
            return  # the wait finds that out by itself
        self._complained = True
        _log.warning("questions.not_watched", path=str(path), error=str(error))

    def _remove(self, thread: _InotifyThread, watch: int, on_change: OnChange) -> None:
        with self._lock:
            if thread is not self._thread:
                return  # of the process that this one was forked from
            thread.remove(watch, on_change)
            self._listeners -= 1
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._thread is not None and not self._listeners:
            self._thread.end()
            self._thread = None


_watcher = InotifyWatcher()
os.register_at_fork(after_in_child=_watcher.forget)


def process_watcher() -> Watcher:
    """Return the watcher that all waits of this process share."""
    return _watcher
