"""Close files that have no name left, without waiting.

Closing the last descriptor of a replaced file frees its blocks. On a journaling file system that
waits for other writers, for up to some milliseconds, and nothing depends on the result.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Final

_MOST_WAITING: Final = 64
"""The most descriptors that may wait; beyond it callers close their own."""

_IDLE_SECONDS: Final = 60.0


class Closer:
    """A thread that closes descriptors; it starts on demand and ends when idle.

    Args:
        most: The most descriptors that may wait.
        idle_s: How long the thread waits for another one, in seconds.
    """

    def __init__(self, *, most: int = _MOST_WAITING, idle_s: float = _IDLE_SECONDS) -> None:
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._waiting: deque[int] = deque()
        self._most = most
        self._idle_s = idle_s
        self._thread: threading.Thread | None = None

    def close(self, fd: int) -> None:
        """Close a descriptor soon; at once if too many wait or no thread can start."""
        with self._lock:  # not the condition: a handler raising on its entry leaves it locked
            if len(self._waiting) < self._most and self._started():
                self._waiting.append(fd)
                self._condition.notify_all()  # all: an interrupted wait leaves a stale waiter
                return
        _close(fd)

    def _started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="sandbox-closer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the process is ending
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._condition.wait_for(lambda: bool(self._waiting), self._idle_s):
                    self._thread = None
                    return
                fd = self._waiting.popleft()
            _close(fd)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # it is closed even on an error
        os.close(fd)


_closer = Closer()


def close_later(fd: int) -> None:
    """Close a descriptor of a file without a name on another thread of this process."""
    _closer.close(fd)


def _after_fork() -> None:
    """Start afresh: the thread is the parent's, and its waiting descriptors close at exit."""
    global _closer  # noqa: PLW0603 (a child starts its own)
    _closer = Closer()


os.register_at_fork(after_in_child=_after_fork)
