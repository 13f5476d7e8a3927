"""The lock of one question session: which lock files it has, and what a killed owner leaves.

`status.json.lock` says who changes a session; `answers.json.lock` is held as well while answers are
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ..durable import FileSystem
from ..durable.atomic_file import is_temporary
from ..durable.pid_lock import PidLock
from ..durable.process_owner import Processes
from ..event_log import get_logger

LOCK_FILE: Final = "status.json.lock"
ANSWERS_LOCK_FILE: Final = "answers.json.lock"
ANSWERING: Final = (LOCK_FILE, ANSWERS_LOCK_FILE)
"""What is held while answers are written, in the order in which it is taken.

Other programs hold one lock file at a time, so this order can't meet another one in a deadlock.
"""
_FILES: Final = ("request.json", "status.json", "answers.json")
_FORMER_TEMPORARIES: Final = frozenset(f".{name}.tmp" for name in _FILES)

_log = get_logger("agentforge.questions")


def _is_leftover(entry: str) -> bool:
    return entry in _FORMER_TEMPORARIES or any(is_temporary(entry, name) for name in _FILES)


def _report(session_id: str, event: str, /, **fields: str) -> None:
    _log.warning(f"question.{event}", session_id=session_id, **fields)


def session_lock(
    fs: FileSystem,
    path: Path,
    session_id: str,
    *,
    token: Callable[[], str],
    timeout_s: float,
    grace_s: float,
    files: Sequence[str],
    processes: Processes | None,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> PidLock:
    """Name the lock of the session whose directory is `path`; `files` are the lock files."""
    return PidLock(
        fs,
        path,
        files,
        timeout_s=timeout_s,
        grace_s=grace_s,
        is_leftover=_is_leftover,
        report=partial(_report, session_id),
        token=token,
        processes=processes,
        monotonic=monotonic,
        sleep=sleep,
    )
