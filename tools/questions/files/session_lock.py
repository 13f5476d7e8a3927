"""The right to change one question session.

`status.json.lock` names the process that changes a session; `answers.json.lock` is held as well
while answers are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ...base.event_log import get_logger
from ...base.files import FileSystem, WriteError
from ...base.files.atomic_file import is_temporary
from ...base.files.pid_lock import PidLock
from ..disk_errors import QUESTION_ERRORS, AtomicWriteError
from ..errors import SessionNotFound
from .documents import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE

LOCK_FILE: Final = "status.json.lock"
ANSWERS_LOCK_FILE: Final = "answers.json.lock"
ANSWERING: Final = (LOCK_FILE, ANSWERS_LOCK_FILE)
"""The locks held while answers are written, in the order in which they are taken.

Other programs hold one lock file at a time, so this order can't lead to a deadlock with them.
"""
_FILES: Final = (REQUEST_FILE, STATUS_FILE, ANSWERS_FILE)

_log = get_logger("agentforge.questions")


def _is_leftover(entry: str) -> bool:
    return entry.startswith(".") and any(is_temporary(entry, name) for name in _FILES)


def _report(session_id: str, event: str, /, **fields: str) -> None:
    _log.warning(f"question.{event}", session_id=session_id, **fields)


@contextmanager
def lock_session(
    lock: Callable[..., PidLock],
    fs: FileSystem,
    path: Path,
    names: Sequence[str],
) -> Iterator[int]:
    """Hold the right to change the session whose directory is `path`; yield the open directory.

    Args:
        lock: Makes the lock, with the times and processes of its store.
        fs: The file system.
        path: Its directory.
        names: The lock files that keep other programs away.

    Raises:
        SessionNotFound: There is no such session.
        SessionBusy: Others held the lock for too long.
        AtomicWriteError: It can't be locked.
    """
    session_id = path.name
    held = lock(fs, path, names, is_leftover=_is_leftover, report=partial(_report, session_id))
    try:
        held.acquire()
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=path.parent) from None
    except WriteError as error:
        raise QUESTION_ERRORS.of(error, session_id) from error
    except OSError as error:
        raise AtomicWriteError(
            path=path, operation="lock", cause=error, session_id=session_id
        ) from error
    try:
        yield held.fd
    finally:
        held.release()
