"""Making what is missing in the cache once, though several processes start together.

The lock is the kernel's, on a file that stays; the file holds the holder's process id while the
lock is held, so that whoever waits can say for whom.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...base.event_log import get_logger
from ...base.files.filesystem import OsFileSystem

COMPILING: Final = "compile"
TEMPLATE: Final = "template"

SAID_AFTER_SECONDS: Final = 2.0
"""After how long a wait is reported."""

_LOCK: Final = ".agentforge-{}.lock"
_MOST_DIGITS: Final = 20

_log = get_logger("agentforge.sandbox")
_waits: Final[list[int | None]] = []


def awaited_process() -> tuple[int | None] | None:
    """Return the process that this one waits for, by its id if that is known; None for no wait."""
    waits = tuple(_waits)
    return (waits[-1],) if waits else None


@contextlib.contextmanager
def making(
    directory: Path | None,
    what: str = COMPILING,
    *,
    waits: bool = True,
    said_after_s: float = SAID_AFTER_SECONDS,
) -> Iterator[bool]:
    """Held while this process makes what is missing, however long another one takes for it.

    Gives whether it is held: not where the directory takes no lock file, or there is none.

    Args:
        directory: The directory, made if it is missing.
        what: What is made; who makes something else does not wait for it.
        waits: Whether to wait for another process that makes it; if not, it is not held then.
        said_after_s: After how many seconds a wait is reported, in the log and by
            `awaited_process`.
    """
    with _opened(directory, what) as fd:
        locked = fd is not None and _locked(fd, directory, what, said_after_s if waits else None)
        with _named(fd if locked else None):
            yield locked


@contextlib.contextmanager
def _opened(directory: Path | None, what: str) -> Iterator[int | None]:
    if directory is None:
        yield None
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(directory / _LOCK.format(what), flags, 0o600)
    except OSError as error:
        # A read-only cache that is warm needs no lock; a cold one is compiled by each process.
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int, directory: Path | None, what: str, said_after_s: float | None) -> bool:
    """Lock the file; return False where it takes no locks, or for None where another has it."""
    from ...base.files.file_lock import Patience, try_lock, wait_lock

    fs, patience = OsFileSystem(), Patience(said_after_s or 0.0)
    try:
        while not try_lock(fs, fd):
            if said_after_s is None:
                return False
            if not patience.pause():
                with _said(fd, directory, what):
                    wait_lock(fs, fd)
                break
    except OSError as error:
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        return False
    return True


@contextlib.contextmanager
def _said(fd: int, directory: Path | None, what: str) -> Iterator[None]:
    holder = _holder(fd)
    _log.warning("runtime.waiting", cache=str(directory), made=what, holder=holder)
    _waits.append(holder)
    try:
        yield
    finally:
        _waits.remove(holder)


@contextlib.contextmanager
def _named(fd: int | None) -> Iterator[None]:
    """Have the file hold this process's id; on a full disk it holds none."""
    if fd is None:
        yield
        return
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)


def _holder(fd: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(os.pread(fd, _MOST_DIGITS, 0))
    return None
