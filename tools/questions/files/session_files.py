"""The files of one session: read completely, or with every fault listed, and replaced.

A file that is missing or torn is read again after a pause, since another program may be writing it
in place. No symbolic link is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from ...base.files import FileSystem, ReadError, WriteError, read_regular_file, replace_file
from ...base.files.file_lock import has_name
from ...base.question import QuestionError
from ..disk_errors import QUESTION_ERRORS, SessionCorrupted
from ..errors import SessionNotFound
from .documents import ANSWERS_FILE, SessionDocuments, Unsettled

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
