"""What can go wrong with a question session, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..errors import AgentForgeError, ErrorKind, shown
from ..identifiers import InvalidIdentifier
from .session_status import SessionStatus

_SHOWN: Final = 8


class QuestionError(AgentForgeError):
    """Base of this package's errors.

    Attributes:
        session_id: The question session it is about, or None.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id


class _Faulty(QuestionError):
    """Input with faults, all of them told at once.

    Attributes:
        faults: Everything that is wrong, in the order of the input.
    """

    def __init__(
        self, message: str | None, faults: Iterable[str], *, session_id: str | None = None
    ) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__(message or _listed(self.faults), session_id=session_id)


def _listed(faults: tuple[str, ...]) -> str:
    more = len(faults) - _SHOWN
    return "; ".join(faults[:_SHOWN]) + (f"; and {more} more faults" if more > 0 else "")


class InvalidQuestions(_Faulty, ValueError):
    """Questions that can't be asked; nothing was written.

    Attributes:
        faults: Everything that is wrong with them, each with the place.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Iterable[str], *, session_id: str | None = None) -> None:
        super().__init__(None, faults, session_id=session_id)


class InvalidAnswers(_Faulty, ValueError):
    """Answers that don't fit their questions; nothing was written, the session is as it was.

    Attributes:
        faults: Everything that is wrong with them; the message is the first ones.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Iterable[str], *, session_id: str | None = None) -> None:
        super().__init__(None, faults, session_id=session_id)


class InvalidSessionId(QuestionError, InvalidIdentifier):
    """A text that is no id of a question session; the disk was not touched.

    Attributes:
        given: What was given.
    """

    kind = ErrorKind.USAGE

    def __init__(self, session_id: object) -> None:
        self.given = session_id
        self._text = shown(session_id)
        super().__init__(
            f"Invalid session ID format: {self._text}. A question session's id is a version 4 UUID "
            "in lower case; nothing was read or written.",
            session_id=session_id if isinstance(session_id, str) else None,
        )
        if isinstance(session_id, str) and self._text[-1] in "'\"":
            self._text = self._text[1:-1]

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return f"Invalid session ID format: {self._text}"


class SessionNotFound(QuestionError, LookupError):
    """There is no such question session (any more).

    Attributes:
        path: The directory in which it was looked for, or None.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, *, path: Path | None = None) -> None:
        super().__init__(f"Session not found: {session_id}", session_id=session_id)
        self.path = path


class SessionExists(QuestionError):
    """There is a question session of this id already; it was left as it is.

    Attributes:
        path: Its directory.
    """

    def __init__(self, session_id: str, *, path: Path) -> None:
        super().__init__(
            f"question session {session_id} exists already in {path.parent}; nothing was changed. "
            "Wait for that one, or create one without an id of your own.",
            session_id=session_id,
        )
        self.path = path


class AmbiguousSessionId(QuestionError):
    """A shortened id fits several question sessions.

    Attributes:
        candidates: The ids it fits.
    """

    kind = ErrorKind.AMBIGUOUS

    def __init__(self, shortened: str, candidates: Iterable[str]) -> None:
        self.candidates: tuple[str, ...] = tuple(sorted(candidates))
        more = len(self.candidates) - _SHOWN
        super().__init__(
            f"{shortened} fits {len(self.candidates)} question sessions: "
            f"{', '.join(self.candidates[:_SHOWN])}{f' and {more} more' if more > 0 else ''}. "
            "Give more of the id.",
            session_id=shortened,
        )


class SessionEnded(QuestionError):
    """The session has ended, so it can't be answered, rejected, abandoned or timed out any more.

    Attributes:
        status: How it ended.
        operation: What was asked: "answer", "reject", "abandon", "time out" or "wait for".
    """

    def __init__(
        self, session_id: str, *, status: SessionStatus, operation: str, message: str | None = None
    ) -> None:
        super().__init__(
            message
            or f"cannot {operation} question session {session_id}: it {status.told}. "
            "Nothing was changed; what it ended with is kept.",
            session_id=session_id,
        )
        self.status = status
        self.operation = operation


class SessionRejected(SessionEnded):
    """The person rejected the questions that somebody waits for; the message is SESSION_REJECTED.

    Attributes:
        reason: What the person said, or None.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(self, session_id: str, *, status: SessionStatus, reason: str | None) -> None:
        super().__init__(
            session_id, status=status, operation="wait for", message="SESSION_REJECTED"
        )
        self.reason = reason


class AnswersTimeout(QuestionError, TimeoutError):
    """No answer came in the time that was waited.

    Attributes:
        timeout_s: How long was waited, in seconds.
        ended: Whether the session was ended as timed out; if not, it still can be answered.
    """

    kind = ErrorKind.TIMEOUT
    retryable = True

    def __init__(self, session_id: str, *, timeout_s: float, ended: bool) -> None:
        became = (
            "the session has timed out"
            if ended
            else "the session still waits and can be answered; wait for it again by its id"
        )
        super().__init__(
            f"no answer to question session {session_id} within {round(timeout_s, 1):,} s; "
            f"{became}.",
            session_id=session_id,
        )
        self.timeout_s = timeout_s
        self.ended = ended

    @property
    def user_message(self) -> str:
        """The documented sentence."""
        return (
            f"Session {self.session_id} timed out waiting for user response: "
            "Timeout waiting for user response"
        )


class CallIdMismatch(QuestionError):
    """The session or its answers belong to another call than the one that waits.

    Attributes:
        expected: The call id that was expected.
        actual: The call id that is on disk, or None.
    """

    def __init__(self, session_id: str, *, expected: str, actual: str | None) -> None:
        found = "no call" if actual is None else f"call {actual!r}"
        super().__init__(
            f"question session {session_id} belongs to {found}, not to call {expected!r}; its "
            "answers were not taken, and nothing was changed.",
            session_id=session_id,
        )
        self.expected = expected
        self.actual = actual


class NoAnswers(QuestionError):
    """A session has no answers, so nothing could be noted about them."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id} has no answers to mark as read", session_id=session_id
        )


class SessionCorrupted(QuestionError):
    """A session's files are not what they should be.

    Attributes:
        path: The session's directory or the file.
        faults: Everything that is wrong.
        abandoned: Whether the session was ended as abandoned because of it.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(
        self, session_id: str, *, path: Path, faults: Iterable[str], abandoned: bool = False
    ) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        became = "the session was abandoned" if abandoned else "they were left as they are"
        super().__init__(
            f"the files of question session {session_id} can't be used: {_listed(self.faults)}; "
            f"{became}. Look at them in {path.parent if path.suffix else path}, and ask anew.",
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


class TooManySessions(QuestionError):
    """As many sessions wait as are allowed to.

    Attributes:
        waiting: How many wait.
        max_sessions: How many may.
    """

    retryable = True

    def __init__(self, *, waiting: int, max_sessions: int) -> None:
        super().__init__(
            f"{waiting} question sessions wait already and max_sessions is {max_sessions}; nothing "
            "was created. Answer or reject some, or raise max_sessions."
        )
        self.waiting = waiting
        self.max_sessions = max_sessions


class SessionBusy(QuestionError):
    """Another process held the session's lock for the whole wait.

    Attributes:
        holder: Who holds it, as far as its lock file tells, or None.
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


class AtomicWriteError(QuestionError):
    """A write did not become durable.

    Attributes:
        path: The file that was to be written.
        operation: The step that failed: "write", "verify", "rename", "fsync of the directory", ….
        cause: What the system answered.
        visible: Whether the new content is what a reader sees in spite of the failure.
    """

    kind = ErrorKind.STORAGE
    retryable = True

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


class AtomicReadError(QuestionError):
    """The system would not read a file or the directory.

    Attributes:
        path: What could not be read.
        cause: What the system answered.
    """

    kind = ErrorKind.STORAGE
    retryable = True

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


class InvalidConfig(_Faulty, ValueError):
    """A configuration that can't be used, with everything that is wrong with it.

    Attributes:
        path: The file, or None where the values came from code.
        faults: Everything that is wrong.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, faults: Iterable[str], *, path: Path | None = None) -> None:
        kept = tuple(faults)
        where = f"{path}: " if path is not None else ""
        super().__init__(f"{where}{_listed(kept)}", kept)
        self.path = path
