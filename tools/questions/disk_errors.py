"""What can go wrong with a question session's files and locks, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..base.errors import ErrorKind, listed
from ..base.question import QuestionError
from .errors import QuestionStoreError


class SessionCorrupted(QuestionError):
    """A session's files are not what they should be.

    Attributes:
        path: The session's directory or the file; None where it is not kept in files.
        faults: Everything that is wrong.
        abandoned: Whether the session was ended as abandoned because of it.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(
        self,
        session_id: str,
        *,
        path: Path | None = None,
        faults: Iterable[str],
        abandoned: bool = False,
    ) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        became = "the session was abandoned" if abandoned else "they were left as they are"
        place = "" if path is None else f"Look at them in {path.parent if path.suffix else path}, "
        super().__init__(
            f"the files of question session {session_id} can't be used: {listed(self.faults)}; "
            f"{became}. {place + 'and ask' if place else 'Ask'} anew.",
            session_id=session_id,
        )
        self.path = path
        self.abandoned = abandoned

    @property
    def user_message(self) -> str:
        """The documented sentence: answers that don't fit, or a file that can't be read."""
        answers = "answers.json: "
        fault = self.faults[0] if self.faults else ""
        if fault.startswith(f"{answers}it is no JSON") or not fault.startswith(answers):
            did = "read" if fault.endswith("it is missing") else "parse JSON from"
            name = fault.partition(".json")[0]
            return (
                f"Failed to {did} session file {name}.json for session {self.session_id}: {fault}"
            )
        return (
            f"Answer validation failed for session {self.session_id}: {fault.removeprefix(answers)}"
        )


class SessionBusy(QuestionError):
    """Another process held the session's lock for the whole wait.

    Attributes:
        holder: Who holds it, as far as its lock file says, or None.
        timeout_s: How long was waited, in seconds.
    """

    kind = ErrorKind.CONFLICT
    retryable = True

    def __init__(self, session_id: str, *, holder: str | None, timeout_s: float) -> None:
        super().__init__(
            f"question session {session_id} is locked by {holder or 'another process'}, waited "
            f"{timeout_s:g} s; nothing was changed. Try again, or look at that process.",
            session_id=session_id,
        )
        self.holder = holder
        self.timeout_s = timeout_s


class AtomicWriteError(QuestionStoreError):
    """A write did not become durable.

    Attributes:
        path: The file that was to be written.
        operation: The step that failed: "write", "verify", "rename", "fsync of the directory", ….
        cause: What the system answered.
        visible: Whether the new content is what a reader sees in spite of the failure.
    """

    def __init__(
        self,
        *,
        path: Path,
        operation: str,
        cause: BaseException | None,
        visible: bool = False,
        session_id: str | None = None,
    ) -> None:
        kept = (
            "the new content is in place but may not survive a power failure"
            if visible
            else "the old content is untouched and no temporary file is left"
        )
        super().__init__(
            f"Atomic write failed: {path}: {operation}: {cause}; {kept}. Free the disk or fix its "
            "permissions, then try again.",
            session_id=session_id,
        )
        self.path = path
        self.operation = operation
        self.cause = cause
        self.visible = visible

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return _file_failed("write", self.session_id, self.path)


class AtomicReadError(QuestionStoreError):
    """The system would not read a file or the directory.

    Attributes:
        path: What could not be read.
        cause: What the system answered.
    """

    def __init__(
        self, *, path: Path, cause: BaseException | None, session_id: str | None = None
    ) -> None:
        super().__init__(
            f"Atomic read failed: {path}: {cause}; nothing was changed. Fix its permissions or the "
            "disk, then try again.",
            session_id=session_id,
        )
        self.path = path
        self.cause = cause

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return _file_failed("read", self.session_id, self.path)


def _file_failed(did: str, session_id: str | None, path: Path) -> str:
    if session_id is None:
        return f"Atomic {did} failed: {path}"
    return (
        f"Failed to {did} session file {path.name} for session {session_id}: "
        f"Atomic {did} failed: {path}"
    )
