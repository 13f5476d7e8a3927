"""One user at a time of a workspace, in this process and among processes.

An execution claims its workspace, and so does who deletes one. In the process the users of one
directory wait for one lock, whatever sandbox they come from and whatever path leads there; among
processes they wait for an advisory lock on the directory itself, which needs no file and is gone
with its holder.

Who also takes the lock of a workspace root takes the claim first, or tries it without waiting.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ..durable import OsFileSystem, Patience, try_lock, unlock
from .errors import WorkspaceBusy, WorkspaceError
from .workspace import open_workspace

Identity = tuple[int, int]

_LONGEST_PAUSE_S: Final = 0.05
_FILES: Final = OsFileSystem()


class _Seat:
    """The lock of one workspace, counted so that it goes when nobody wants it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_seats_lock = threading.Lock()
_seats: dict[Identity, _Seat] = {}


def _after_fork() -> None:
    """Threads that held a seat do not exist in a forked child; neither do their claims."""
    global _seats_lock, _seats  # noqa: PLW0603 (a child starts with none)
    _seats_lock = threading.Lock()
    _seats = {}


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def claim(
    path: Path, *, timeout_s: float, given_up: Callable[[], bool] = lambda: False
) -> Iterator[int | None]:
    """Hold a workspace alone; yields a descriptor of it, or None if the wait was given up.

    What is held is the directory that stood at the path when the wait ended: one that was deleted
    or replaced meanwhile is not taken for it.

    Args:
        path: The workspace.
        timeout_s: The longest wait for others, in seconds; 0 does not wait.
        given_up: Asked while waiting; once true, the wait ends.

    Raises:
        WorkspaceBusy: Others held it for the whole wait.
        WorkspaceError: It is gone, or is no directory.
    """
    until = time.monotonic() + timeout_s
    with contextlib.ExitStack() as held:
        yield _take(held, path, timeout_s, until, given_up)


@contextlib.contextmanager
def try_claim(path: Path) -> Iterator[int | None]:
    """Hold a workspace alone if nobody uses it now; never waits.

        with try_claim(workspace) as root:
            if root is None:
                ...  # in use
            else:
                ...  # no execution begins in it before the block is left

    The directory may be renamed or removed while it is held.

    Args:
        path: The workspace.

    Yields:
        A descriptor of the directory, open for the block; None if it is in use.

    Raises:
        WorkspaceError: It is gone, or is no directory.
    """
    with contextlib.ExitStack() as held:
        try:
            root = _take(held, path, 0.0, time.monotonic(), lambda: False)
        except WorkspaceBusy:
            root = None
        yield root


def _take(
    held: contextlib.ExitStack,
    path: Path,
    timeout_s: float,
    until: float,
    given_up: Callable[[], bool],
) -> int | None:
    """Claim what stands at the path; `held` gives the claim back."""
    while True:
        root = open_workspace(path)
        with contextlib.ExitStack() as attempt:
            attempt.callback(os.close, root)
            seen = os.fstat(root)
            identity = (seen.st_dev, seen.st_ino)
            taken = attempt.enter_context(_seat(path, identity, timeout_s, until, given_up))
            if not taken or not _lock(path, root, timeout_s, until, given_up):
                return None
            # A descriptor that went to another process must not hold on to the lock.
            attempt.callback(unlock, _FILES, root)
            if _stands_at(path, identity):
                held.enter_context(attempt.pop_all())
                return root


def _stands_at(path: Path, identity: Identity) -> bool:
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError:
        return False  # opening it again tells what is wrong
    return (now.st_dev, now.st_ino) == identity


@contextlib.contextmanager
def _seat(
    path: Path, identity: Identity, timeout_s: float, until: float, given_up: Callable[[], bool]
) -> Iterator[bool]:
    with _seats_lock:
        seat = _seats.setdefault(identity, _Seat())
        seat.users += 1
    try:
        while not seat.lock.acquire(timeout=_pause(until)):
            if given_up():
                yield False
                return
            if time.monotonic() >= until:
                raise WorkspaceBusy(path, timeout_s, "this process")
        try:
            yield True
        finally:
            seat.lock.release()
    finally:
        with _seats_lock:
            seat.users -= 1
            if not seat.users:
                _seats.pop(identity, None)


def _pause(until: float) -> float:
    return min(_LONGEST_PAUSE_S, max(0.0, until - time.monotonic()))


def _lock(
    path: Path, root: int, timeout_s: float, until: float, given_up: Callable[[], bool]
) -> bool:
    patience = Patience(until - time.monotonic(), longest_s=_LONGEST_PAUSE_S)
    while not _try_lock(path, root):
        if given_up():
            return False
        if not patience.pause():
            raise WorkspaceBusy(path, timeout_s, "another process")
    return True


def _try_lock(path: Path, root: int) -> bool:
    try:
        return try_lock(_FILES, root)
    except OSError as error:
        raise WorkspaceError(
            path,
            f"it cannot be locked ({error.strerror})",
            "put it on a file system with advisory locks",
        ) from error
