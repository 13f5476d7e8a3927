"""Exclusive use of a workspace, among threads and among processes.

An execution claims its workspace, and so does a deletion. Within the process, users of one
directory share one lock, whatever sandbox or path they use. Among processes they use an advisory
lock on the directory itself, which needs no file and ends with its holder.

A caller that also takes the lock of a workspace root must claim the workspace first, or claim it
without waiting.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files import OsFileSystem, Patience, try_lock, unlock
from ..errors import WorkspaceBusy, WorkspaceError
from .workspace import open_workspace

Identity = tuple[int, int]

_LONGEST_PAUSE_S: Final = 0.05
_FILES: Final = OsFileSystem()


class _ThreadLock:
    """A workspace's lock among threads, with a use count: removed when it reaches zero."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_thread_locks_lock = threading.Lock()
_thread_locks: dict[Identity, _ThreadLock] = {}


def _after_fork() -> None:
    """Start without locks: the threads that held them do not exist in a forked child."""
    global _thread_locks_lock, _thread_locks  # noqa: PLW0603 (a child starts with none)
    _thread_locks_lock = threading.Lock()
    _thread_locks = {}


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def claim(
    path: Path, *, timeout_s: float, given_up: Callable[[], bool] = lambda: False
) -> Iterator[int | None]:
    """Hold a workspace exclusively; yield its descriptor, or None if the wait was given up.

    The claim is on the directory at the path when the wait ends, never on one that was deleted or
    replaced meanwhile.

    Args:
        path: The workspace.
        timeout_s: The longest wait for others, in seconds; 0 does not wait.
        given_up: Called while waiting; the wait ends once it returns True.

    Raises:
        WorkspaceBusy: Others held it for the full wait.
        WorkspaceError: It is missing, or not a directory.
    """
    wait = _Wait(path, timeout_s, time.monotonic() + timeout_s, given_up)
    with contextlib.ExitStack() as held:
        yield _take(held, wait)


class _Wait(NamedTuple):
    """How long one caller waits for a workspace."""

    path: Path
    timeout_s: float
    until: float
    given_up: Callable[[], bool]

    def busy(self, held_by: str) -> WorkspaceBusy:
        """Return the error for a wait that was too long."""
        return WorkspaceBusy(self.path, self.timeout_s, held_by)


def _take(held: contextlib.ExitStack, wait: _Wait) -> int | None:
    """Claim the directory at the path; `held` releases the claim."""
    while True:
        root = open_workspace(wait.path)
        with contextlib.ExitStack() as attempt:
            attempt.callback(os.close, root)
            seen = os.fstat(root)
            identity = (seen.st_dev, seen.st_ino)
            if not _acquire(attempt, identity, wait) or not _lock(root, wait):
                return None
            # Unlock explicitly: a descriptor passed to another process would hold on to the lock.
            attempt.callback(unlock, _FILES, root)
            if _stands_at(wait.path, identity):
                held.enter_context(attempt.pop_all())
                return root


def _stands_at(path: Path, identity: Identity) -> bool:
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError:
        return False  # reopening reports what is wrong
    return (now.st_dev, now.st_ino) == identity


def _acquire(attempt: contextlib.ExitStack, identity: Identity, wait: _Wait) -> bool:
    """Take the lock among threads; `attempt` releases it. Return False if given up."""
    with _thread_locks_lock:
        wanted = _thread_locks.setdefault(identity, _ThreadLock())
        wanted.users += 1
    attempt.callback(_forget, identity, wanted)
    while not wanted.lock.acquire(
        timeout=min(_LONGEST_PAUSE_S, max(0.0, wait.until - time.monotonic()))
    ):
        if wait.given_up():
            return False
        if time.monotonic() >= wait.until:
            raise wait.busy("this process")
    attempt.callback(wanted.lock.release)
    return True


def _forget(identity: Identity, lock: _ThreadLock) -> None:
    with _thread_locks_lock:
        lock.users -= 1
        if not lock.users:
            _thread_locks.pop(identity, None)


def _lock(root: int, wait: _Wait) -> bool:
    """Take the lock among processes; return False if the wait was given up."""
    patience: Patience | None = None
    while True:
        try:
            if try_lock(_FILES, root):
                return True
        except OSError as error:
            raise WorkspaceError(
                wait.path,
                f"it cannot be locked ({error.strerror})",
                "put it on a file system with advisory locks",
            ) from error
        if wait.given_up():
            return False
        if patience is None:
            patience = Patience(wait.until - time.monotonic(), longest_s=_LONGEST_PAUSE_S)
        if not patience.pause():
            raise wait.busy("another process")
