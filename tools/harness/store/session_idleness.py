"""Holding a session against all that could work in it, while it is saved as ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...base.files import DirectoryLock, FileSystem, LockTimeout, WriteError
from ...base.files.filesystem import close_reader
from ...prune.removal.session_lock import hold
from ..errors import SessionInUse


@contextmanager
def held_idle(
    fs: FileSystem, directory: Path, session_id: str, guards: Sequence[str]
) -> Iterator[None]:
    """Hold the guards of a session, not the lock of its saves.

    Args:
        fs: The file system.
        directory: The session's directory.
        session_id: The session.
        guards: What in the directory is locked by what works there.

    Raises:
        SessionInUse: A run or an execution is at work in it.
        WriteError: The system refused.
    """
    try:
        with DirectoryLock(fs, directory, timeout_s=1.0) as lock:
            held = hold(fs, lock.fd, guards)
    except (FileNotFoundError, LockTimeout) as error:
        raise SessionInUse(session_id, path=directory) from error
    except OSError as error:
        raise WriteError(path=directory, operation="lock", cause=error) from error
    if held is None:
        raise SessionInUse(session_id, path=directory)
    try:
        yield
    finally:
        for fd in held:
            close_reader(fs, fd)
