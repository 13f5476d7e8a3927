"""Reading the files of one session: whole, or with everything that is wrong.

A file that is missing or torn is read again after a pause, since another program may be writing it
in place. No symbolic link is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ...base.files import FileSystem, ReadError, read_regular_file
from ...base.files.file_lock import has_name
from ...base.question import QuestionError
from ..disk_errors import QUESTION_ERRORS, SessionCorrupted
from ..domain import QuestionSession, SessionRequest, StatusRecord
from ..errors import SessionNotFound
from .documents import (
    ANSWERS_FILE,
    REQUEST_FILE,
    STATUS_FILE,
    Unsettled,
    may_have_answers,
    read_document,
    session_of,
)

DEFAULT_BASE_DIR: Final = Path(".agentforge/questions")
STAGING_PREFIX: Final = ".new-"
STAGING_GRACE_S: Final = 60.0
"""How old a hidden new session must be, in seconds, to be looked at as left behind."""
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""Largest file of a session that is written or read."""
READ_PAUSES_S: Final = (0.08, 0.16, 0.32)
"""The pauses before a read is tried again, in seconds. Together they are more than half a second:
so long may another program take that writes a file in place, bit by bit."""

_Value = TypeVar("_Value")


class SessionFiles:
    """Reads the files of sessions under one base, each in a directory that is open."""

    def __init__(self, fs: FileSystem, base_dir: Path, *, sleep: Callable[[float], None]) -> None:
        """Name the base; `sleep` pauses before a file is read again."""
        self._fs = fs
        self._base_dir = base_dir
        self._sleep = sleep

    def session(
        self, fd: int, session_id: str, *, pauses: Sequence[float] = READ_PAUSES_S
    ) -> QuestionSession:
        """Read the session whose directory is open.

        Raises:
            SessionNotFound: There is none (any more).
            SessionCorrupted: Its files are not what they should be.
            AtomicReadError: The system would not read them.
        """
        return self._retrying(fd, session_id, lambda: self._read_once(fd, session_id), pauses)

    def record(self, fd: int, session_id: str) -> StatusRecord:
        """Read status.json of the session whose directory is open; see `session`."""
        found: StatusRecord = self._retrying(
            fd, session_id, lambda: self._part(fd, STATUS_FILE, session_id)
        )
        return found

    def request(self, fd: int, session_id: str) -> SessionRequest:
        """Read request.json of the session whose directory is open; see `session`."""
        found: SessionRequest = self._retrying(
            fd, session_id, lambda: self._part(fd, REQUEST_FILE, session_id)
        )
        return found

    def _retrying(
        self,
        fd: int,
        session_id: str,
        read: Callable[[], _Value],
        pauses: Sequence[float] = READ_PAUSES_S,
    ) -> _Value:
        for pause in (*pauses, None):
            try:
                return read()
            except Unsettled as error:
                if pause is None:
                    raise self._unusable(fd, session_id, error) from error
            except ReadError as error:
                if error.cause is None:  # a link, a FIFO, too large: not read for what it is
                    raise SessionCorrupted(
                        session_id, path=error.path, faults=[str(error)]
                    ) from error
                if pause is None or isinstance(error.cause, PermissionError):
                    raise QUESTION_ERRORS.of(error, session_id) from error
            self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover

    def _unusable(self, fd: int, session_id: str, error: Unsettled) -> QuestionError:
        directory = self._base_dir / session_id
        if not self._is_there(fd, directory):
            return SessionNotFound(session_id, path=self._base_dir)
        return SessionCorrupted(session_id, path=directory / error.name, faults=error.faults)

    def _is_there(self, fd: int, path: Path) -> bool:
        try:
            return has_name(self._fs, fd, str(path))
        except OSError:
            return False

    def _read_once(self, fd: int, session_id: str) -> QuestionSession:
        """Read the files once: the status first, since answers are written before it says so."""
        record: StatusRecord = self._part(fd, STATUS_FILE, session_id)
        request: SessionRequest = self._part(fd, REQUEST_FILE, session_id)
        answers = None
        if may_have_answers(record):
            data = self.read(fd, self._base_dir / session_id / ANSWERS_FILE)
            if data is not None:
                answers = read_document(ANSWERS_FILE, data, session_id)
        return session_of(request, record, answers)

    def _part(self, fd: int, name: str, session_id: str) -> Any:
        data = self.read(fd, self._base_dir / session_id / name)
        return read_document(name, data, session_id)

    def read(self, fd: int, path: Path) -> bytes | None:
        """Read a file of a session whose directory is open; None if there is none.

        Raises:
            agentforge_sessions.base.files.ReadError: It can't be read.
        """
        return read_regular_file(
            self._fs, path.name, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=fd
        )
