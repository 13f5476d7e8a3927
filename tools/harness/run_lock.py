"""Whether a worker is at a session, seen from outside by the lock that its runner holds."""

from __future__ import annotations

from ..durable import DurableError, FileLock, FileSystem, OsFileSystem
from .session_deletion import RUN_LOCKS
from .session_domain import SessionState
from .session_store import SessionStore


def is_interrupted(
    store: SessionStore, session_id: str, state: SessionState, *, fs: FileSystem | None = None
) -> bool:
    """Return whether a run of the session was cut off: it is active, and no worker is at it.

    A session that no runner ever led is never interrupted: the program that leads it holds no lock.
    The lock is held for a moment to find out, for which a runner that begins just then waits.

    Args:
        store: Where the session is.
        session_id: The session.
        state: The state that its file says.
        fs: The file system.

    Raises:
        InvalidSessionId: It is no id.
    """
    if state is not SessionState.ACTIVE:
        return False
    file = store.session_path(session_id)
    for name in RUN_LOCKS:
        lock = FileLock(fs or OsFileSystem(), file.with_name(name), timeout_s=0.0)
        try:
            lock.acquire()
        except FileNotFoundError:
            continue
        except DurableError:  # held, or not to be opened by this user
            return False
        lock.release()
        return True
    return False
