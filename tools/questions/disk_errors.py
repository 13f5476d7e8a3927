"""What can go wrong with a question session's files and locks, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..base.errors import ErrorKind, listed
from ..base.files.errors import LockTimeout, ReadError, StorageErrors, WriteError
from ..base.question import QuestionError
from .errors import QuestionStoreError


class SessionCorrupted(QuestionError, kind=ErrorKind.INVALID_FILE):
    """A session's files are invalid."""

    session_id: str
    faults: Sequence[str]
    path: Path | None = None
    """The session's directory or the file; None if it is not stored in files."""
    abandoned: bool = False
    """Whether the session was ended as abandoned because of it."""

    def __str__(self) -> str:
        became = "the session was abandoned" if self.abandoned else "they were left as they are"
        advice = "Ask again."
        if self.path is not None:
            folder = self.path.parent if self.path.suffix else self.path
            advice = f"Look at them in {folder}, and ask again."
        return (
            f"the files of question session {self.session_id} can't be used: "
            f"{listed(self.faults)}; {became}. {advice}"
        )

    @property
    def user_message(self) -> str:
        """The documented sentence: answers that don't fit, or a file that can't be read."""
        answers = "answers.json: "
        fault = self.faults[0] if self.faults else ""
        of_session = f"for session {self.session_id}"
        if fault.startswith(answers) and not fault.startswith(f"{answers}it is no JSON"):
            return f"Answer validation failed {of_session}: {fault.removeprefix(answers)}"
        did = "read" if fault.endswith("it is missing") else "parse JSON from"
        name = fault.partition(".json")[0]
        return f"Failed to {did} session file {name}.json {of_session}: {fault}"


class SessionBusy(QuestionError, kind=ErrorKind.CONFLICT, retryable=True):
    """Another process held the session's lock for the whole wait."""

    message = """question session {session_id} is locked by {holder:or another process}, waited
    {timeout_s:g} s; nothing was changed. Try again, or look at that process."""
    session_id: str
    holder: str | None
    """The holder, as the lock file names it."""
    timeout_s: float


class AtomicWriteError(QuestionStoreError, WriteError):
    """A write did not become durable; `base.files.WriteError` has the fields."""

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return _file_failed("write", self.session_id, self.path)


class AtomicReadError(QuestionStoreError, ReadError):
    """The system refused to read a file or the directory."""

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return _file_failed("read", self.session_id, self.path)


def _file_failed(did: str, session_id: str | None, path: Path) -> str:
    failed = f"Atomic {did} failed: {path}"
    if session_id is None:
        return failed
    return f"Failed to {did} session file {path.name} for session {session_id}: {failed}"


QUESTION_ERRORS: Final = StorageErrors(
    {LockTimeout: SessionBusy, WriteError: AtomicWriteError, ReadError: AtomicReadError},
    subject="session_id",
)
"""The errors about one question session; about all of them, with None."""
