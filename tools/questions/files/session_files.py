"""The files of one session: read completely, or with every fault listed, locked, and replaced.

A file that is missing or torn is read again after a pause, since another program may be writing it
in place. No symbolic link is followed.

`status.json.lock` names the process that changes a session; `answers.json.lock` is held as well
while answers are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ...base.event_log import get_logger
from ...base.files import FileSystem, ReadError, WriteError, read_regular_file, replace_file
from ...base.files.atomic_file import is_temporary
from ...base.files.file_lock import has_name
from ...base.files.marks import GitIndex, PersonMarks
from ...base.files.pid_lock import PidLock
from ...base.question import QuestionError
from ..disk_errors import QUESTION_ERRORS, AtomicWriteError, SessionCorrupted
from ..errors import SessionNotFound
from .documents import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE, SessionDocuments, Unsettled

DEFAULT_BASE_DIR: Final = Path(".agentforge/questions")
STAGING_PREFIX: Final = ".new-"
STAGING_GRACE_S: Final = 60.0
"""The age in seconds from which a hidden new session may count as left behind."""
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""Largest file of a session that is written or read."""
READ_PAUSES_S: Final = (0.08, 0.16, 0.32)
"""The pauses before further attempts to read, in seconds. Together they exceed half a second, which
a program that writes a file in place, bit by bit, has to finish.
"""

_Value = TypeVar("_Value")


class FileDocuments(SessionDocuments):
    """The files of a session whose directory is open; writers hold its lock."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        fd: int,
        *,
        sleep: Callable[[float], None],
        pauses: Sequence[float] = READ_PAUSES_S,
    ) -> None:
        """Store a session's directory.

        Args:
            fs: The file system.
            directory: The directory, for messages, named like the session.
            fd: The same, open.
            sleep: Pauses.
            pauses: The pause before each further attempt to read a torn file, in seconds.
        """
        self.session_id = directory.name
        self._fs = fs
        self._directory = directory
        self._fd = fd
        self._sleep = sleep
        self._pauses = pauses

    def load(self, name: str) -> bytes | None:
        """Read a file; None if it is missing.

        Raises:
            agentforge_sessions.base.files.ReadError: It can't be read.
        """
        path = self._directory / name
        return read_regular_file(
            self._fs, name, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=self._fd
        )

    def keep(self, name: str, data: bytes) -> None:
        """Replace a file: verified, atomically, durably.

        Raises:
            AtomicWriteError: The file is unchanged.
        """
        path = self._directory / name
        try:
            replace_file(self._fs, self._fd, name, [data], path=path, verify=True)
        except WriteError as error:
            raise QUESTION_ERRORS.of(error, self.session_id) from error

    def is_answered(self) -> bool:
        """Return whether there are answers."""
        return is_there(self._fs, self._fd, ANSWERS_FILE)

    def settled(self, look: Callable[[], _Value]) -> _Value:
        """Return the result of a look, if necessary after some pauses.

        Raises:
            SessionNotFound: There is no such session (any more).
            SessionCorrupted: Its files are invalid.
            AtomicReadError: The system refused to read them.
        """
        for pause in (*self._pauses, None):
            try:
                return look()
            except Unsettled as error:
                if pause is None:
                    raise self._unusable(error) from error
            except ReadError as error:
                if error.cause is None:  # a link, a FIFO, too large: refused because of its kind
                    raise SessionCorrupted(
                        self.session_id, path=error.path, faults=[str(error)]
                    ) from error
                if pause is None or isinstance(error.cause, PermissionError):
                    raise QUESTION_ERRORS.of(error, self.session_id) from error
            self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover

    def _unusable(self, error: Unsettled) -> QuestionError:
        with suppress(OSError):
            if has_name(self._fs, self._fd, str(self._directory)):
                path = self._directory / error.name
                return SessionCorrupted(self.session_id, path=path, faults=error.faults)
        return SessionNotFound(self.session_id, path=self._directory.parent)


def is_there(fs: FileSystem, directory_fd: int, name: str) -> bool:
    """Return whether an open directory has an entry of this name."""
    try:
        fs.stat(name, dir_fd=directory_fd)
    except OSError:
        return False
    return True


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


FOLDER: Final = "questions"


class OwnQuestions:
    """Judges the question sessions of one directory. May be shared between threads.

    Args:
        base: The directory.
        environment: Determines the person's state directory.
    """

    def __init__(self, base: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._marks = PersonMarks(base, FOLDER, environment=environment)
        self._index = GitIndex(base)

    def foreign(self, names: Iterable[str]) -> frozenset[str]:
        """Return the ids among these whose sessions came with a repository and were not adopted."""
        tracked = self._index.tracked()
        if not tracked:
            return frozenset()
        return frozenset(one for one in names if self._is_foreign(one, tracked.version(one)))

    def adopt(self, session_id: str) -> None:
        """Mark a session as own, as Git tracks it now.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        self._marks.write(session_id, self._index.tracked().version(session_id) or "-")

    def _is_foreign(self, session_id: str, version: str) -> bool:
        return bool(version) and self._marks.said(session_id) != version


__all__ = ["OwnQuestions"]
