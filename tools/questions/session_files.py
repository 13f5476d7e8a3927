"""Reading the files of one session: whole, or with everything that is wrong.

A file that is missing or torn is read again after a pause, since another program may be writing it
in place. No symbolic link is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ..durable import FileSystem, ReadError, read_regular_file
from ..durable.file_lock import has_name
from ..question import QuestionError
from . import wire
from .disk_errors import AtomicReadError, SessionCorrupted
from .domain import QuestionSession, SessionAnswers, SessionRequest, StatusRecord
from .errors import SessionNotFound
from .json_fields import WireError
from .rules import answer_faults
from .session_status import SessionStatus

REQUEST_FILE: Final = "request.json"
STATUS_FILE: Final = "status.json"
ANSWERS_FILE: Final = "answers.json"
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""Largest file of a session that is written or read."""
READ_PAUSES_S: Final = (0.08, 0.16, 0.32)
"""The pauses before a read is tried again, in seconds. Together they are more than half a second:
so long may another program take that writes a file in place, bit by bit."""

_Value = TypeVar("_Value")


class _Unsettled(Exception):
    """What was read is not whole, as while another program is writing it."""

    def __init__(self, faults: list[str], path: Path) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults
        self.path = path


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
        path = self._base_dir / session_id / STATUS_FILE
        return self._retrying(
            fd, session_id, lambda: self._part(fd, path, wire.read_status, session_id)
        )

    def request(self, fd: int, session_id: str) -> SessionRequest:
        """Read request.json of the session whose directory is open; see `session`."""
        path = self._base_dir / session_id / REQUEST_FILE
        return self._retrying(
            fd, session_id, lambda: self._part(fd, path, wire.read_request, session_id)
        )

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
            except _Unsettled as error:
                if pause is None:
                    raise self._unusable(fd, session_id, error) from error
            except ReadError as error:
                if error.cause is None:  # a link, a FIFO, too large: not read for what it is
                    raise SessionCorrupted(
                        session_id, path=error.path, faults=[str(error)]
                    ) from error
                if pause is None or isinstance(error.cause, PermissionError):
                    raise AtomicReadError(
                        path=error.path, cause=error.cause, session_id=session_id
                    ) from error
            self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover

    def _unusable(self, fd: int, session_id: str, error: _Unsettled) -> QuestionError:
        if not self._is_there(fd, self._base_dir / session_id):
            return SessionNotFound(session_id, path=self._base_dir)
        return SessionCorrupted(session_id, path=error.path, faults=error.faults)

    def _is_there(self, fd: int, path: Path) -> bool:
        try:
            return has_name(self._fs, fd, str(path))
        except OSError:
            return False

    def _read_once(self, fd: int, session_id: str) -> QuestionSession:
        """Read the files once: the status first, since answers are written before it says so."""
        path = self._base_dir / session_id
        record = self._part(fd, path / STATUS_FILE, wire.read_status, session_id)
        request = self._part(fd, path / REQUEST_FILE, wire.read_request, session_id)
        answers = None
        if record.status in {SessionStatus.PENDING, SessionStatus.COMPLETED}:
            answers = self._optional_part(fd, path / ANSWERS_FILE, wire.read_answers, session_id)
        if record.status is SessionStatus.PENDING and _is_of_another_call(answers, record, request):
            answers = None  # they answer nothing that was asked here
        if answers is None:
            if record.status is SessionStatus.COMPLETED:
                raise _Unsettled(["answers.json: it is missing"], path / ANSWERS_FILE)
        elif faults := answer_faults(answers.answers, request.questions):
            raise _Unsettled([f"answers.json: {one}" for one in faults], path / ANSWERS_FILE)
        return QuestionSession(request=request, record=record, answers=answers)

    def _part(
        self, fd: int, path: Path, read: Callable[[bytes], _Value], session_id: str
    ) -> _Value:
        found = self._optional_part(fd, path, read, session_id)
        if found is None:
            raise _Unsettled([f"{path.name}: it is missing"], path)
        return found

    def _optional_part(
        self, fd: int, path: Path, read: Callable[[bytes], _Value], session_id: str
    ) -> _Value | None:
        data = self.read(fd, path)
        if data is None:
            return None
        try:
            found = read(data)
        except WireError as error:
            raise _Unsettled(list(error.faults), path) from error
        owner = getattr(found, "session_id", session_id)
        if owner != session_id:
            raise _Unsettled([f"{path.name}.sessionId: it is {owner!r}"], path)
        return found

    def read(self, fd: int, path: Path) -> bytes | None:
        """Read a file of a session whose directory is open; None if there is none.

        Raises:
            agentforge_sessions.durable.ReadError: It can't be read.
        """
        return read_regular_file(
            self._fs, path.name, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=fd
        )


def _is_of_another_call(
    answers: SessionAnswers | None, record: StatusRecord, request: SessionRequest
) -> bool:
    asked = record.call_id or request.call_id
    return answers is not None and None not in {asked, answers.call_id} and answers.call_id != asked
