"""The right to change one question session, and what may be changed under it.

`status.json.lock` says who changes a session; `answers.json.lock` is held as well while answers are
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...base.event_log import get_logger
from ...base.files import FileSystem, ReadError, WriteError, replace_file
from ...base.files.atomic_file import is_temporary
from ...base.files.pid_lock import PidLock
from ..disk_errors import QUESTION_ERRORS, AtomicWriteError
from ..domain import QuestionSession, SessionAnswers, SessionRequest, StatusRecord
from ..errors import SessionNotFound
from . import wire
from .documents import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE, rewritten
from .json_form import encode
from .session_files import SessionFiles

LOCK_FILE: Final = "status.json.lock"
ANSWERS_LOCK_FILE: Final = "answers.json.lock"
ANSWERING: Final = (LOCK_FILE, ANSWERS_LOCK_FILE)
"""What is held while answers are written, in the order in which it is taken.

Other programs hold one lock file at a time, so this order can't meet another one in a deadlock.
"""
_FILES: Final = (REQUEST_FILE, STATUS_FILE, ANSWERS_FILE)

_log = get_logger("agentforge.questions")


def _is_leftover(entry: str) -> bool:
    return any(is_temporary(entry, name) for name in _FILES)


def _report(session_id: str, event: str, /, **fields: str) -> None:
    _log.warning(f"question.{event}", session_id=session_id, **fields)


class LockedFiles:
    """A session whose lock is held, in files. A `repository.LockedSession`.

    Attributes:
        session_id: The session.
    """

    def __init__(
        self, fs: FileSystem, files: SessionFiles, session_id: str, path: Path, fd: int
    ) -> None:
        self._fs = fs
        self._files = files
        self._path = path
        self._fd = fd
        self.session_id = session_id

    def read(self) -> QuestionSession:
        """Read it whole; see `SessionFiles.session`."""
        return self._files.session(self._fd, self.session_id)

    def read_record(self) -> StatusRecord:
        """Read status.json alone.

        Raises:
            SessionCorrupted: It can't be read as a status.
        """
        return self._files.record(self._fd, self.session_id)

    def write_answers(self, answers: SessionAnswers) -> None:
        """Make answers.json; the session is completed from then on.

        Raises:
            AtomicWriteError: It was not made.
        """
        self._write(ANSWERS_FILE, encode(wire.answers_document(answers)))

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Note in answers.json when the answers were fetched; all else in it stays.

        Raises:
            AtomicWriteError: It is as it was.
        """
        self._rewrite(ANSWERS_FILE, wire.answers_document(answers), only="lastReadAt")

    def _rewrite(self, name: str, document: dict[str, Any], *, only: str | None = None) -> None:
        """Replace a file; what it holds that is not in `document` stays, in its order."""
        kept = None
        with suppress(ReadError):
            kept = self._files.read(self._fd, self._path / name)
        self._write(name, rewritten(kept, document, name, only=only))

    def write_record(self, record: StatusRecord) -> None:
        """Replace status.json; what other programs keep in it stays.

        Raises:
            AtomicWriteError: It is as it was.
        """
        self._rewrite(STATUS_FILE, wire.status_document(record))

    def read_request(self) -> SessionRequest:
        """Read request.json alone.

        Raises:
            SessionCorrupted: It can't be read as a request.
        """
        return self._files.request(self._fd, self.session_id)

    def _write(self, name: str, content: bytes) -> None:
        """Replace a file: verified, atomically, durably."""
        path = self._path / name
        try:
            replace_file(self._fs, self._fd, name, [content], path=path, verify=True)
        except WriteError as error:
            raise QUESTION_ERRORS.of(error, self.session_id) from error


@contextmanager
def lock_session(
    lock: Callable[..., PidLock],
    fs: FileSystem,
    files: SessionFiles,
    path: Path,
    names: Sequence[str],
) -> Iterator[LockedFiles]:
    """Hold the right to change the session whose directory is `path`.

    Args:
        lock: Makes the lock, with the times and processes of its store.
        fs: The file system.
        files: Reads its files.
        path: Its directory.
        names: The lock files that keep other programs away.

    Raises:
        SessionNotFound: There is none.
        SessionBusy: Others held it for too long.
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
        yield LockedFiles(fs, files, session_id, path, held.fd)
    finally:
        held.release()
