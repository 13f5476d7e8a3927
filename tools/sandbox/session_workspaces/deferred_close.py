"""Closing files that have no name left, without waiting for it.

Closing the last descriptor of a replaced file frees its blocks. On a file system with a journal
that waits for what others write, for up to some milliseconds, and nothing depends on its end.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Final

_MOST_WAITING: Final = 64
"""How many descriptors wait at the most; past it the caller closes its own."""

_IDLE_SECONDS: Final = 60.0


class Closer:
    """A thread that closes descriptors; it is started when needed and ends when it rests.

    Args:
        most: How many descriptors wait at the most.
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
        """Close a descriptor soon; at once where too many wait already or no thread starts."""
        with self._lock:  # not the condition: a handler that raises as it is entered keeps it
            if len(self._waiting) < self._most and self._started():
                self._waiting.append(fd)
                self._condition.notify_all()  # one that a handler cut short leaves a stale waiter
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
    with contextlib.suppress(OSError):  # it is closed whatever the system answers
        os.close(fd)


_closer = Closer()


def close_later(fd: int) -> None:
    """Close a descriptor of a file that has no name left, on a thread of this process."""
    _closer.close(fd)


def _after_fork() -> None:
    """The thread is the parent's; what waited for it is closed with the child."""
    global _closer  # noqa: PLW0603 (a child starts its own)
    _closer = Closer()


os.register_at_fork(after_in_child=_after_fork)
