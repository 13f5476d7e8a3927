"""Build what the cache lacks once, even if several processes start together.

The lock is the kernel's, on a file that is never removed. While the lock is held, the file contains
the holder's process id, so that a waiting process can report it.
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
"""Seconds after which a wait is reported."""

_LOCK: Final = ".agentforge-{}.lock"
_MOST_DIGITS: Final = 20

_log = get_logger("agentforge.sandbox")
_waits: Final[list[int | None]] = []


def awaited_process() -> tuple[int | None] | None:
    """Return the awaited process's id in a tuple, (None,) if unknown; None without a wait."""
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
    """Hold the lock while this process builds what is missing; by default, wait for it.

    Yields whether the lock is held. It is not if there is no directory, or the directory takes no
    lock file.

    Args:
        directory: The directory, created if missing.
        what: What is built; builds of different things do not wait for each other.
        waits: Whether to wait for another holder; without waiting, yield False.
        said_after_s: Seconds after which a wait is reported, in the log and by
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
        # A warm read-only cache needs no lock; with a cold one, each process compiles for itself.
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int, directory: Path | None, what: str, said_after_s: float | None) -> bool:
    """Lock the file; return False if it takes no locks, or if it is taken and None was given."""
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
    """Write this process's id into the file for the block; a full disk leaves it empty."""
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
