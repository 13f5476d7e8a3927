"""What can go wrong with a question session, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..base.errors import ErrorKind, shown
from ..base.identifiers import InvalidIdentifier
from ..base.question import FaultyInput, QuestionError
from .session_status import SessionStatus

_SHOWN_IDS: Final = 8


class InvalidAnswers(FaultyInput):
    """Answers that don't fit their questions; the session is as it was."""


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
        where: Where the sessions are kept.
        path: Its directory; None where it has none.
    """

    def __init__(self, session_id: str, *, where: str, path: Path | None = None) -> None:
        super().__init__(
            f"question session {session_id} exists already in {where}; nothing was changed. "
            "Wait for that one, or create one without an id of your own.",
            session_id=session_id,
        )
        self.where = where
        self.path = path


class QuestionNotAdopted(QuestionError):
    """A question session came with a repository: no program of this person asked it.

    Attributes:
        where: Where it is.
        changed: Whether it was to be adopted, and is not as it was shown.
    """

    kind = ErrorKind.PERSON_NEEDED

    def __init__(self, session_id: str, *, where: str, changed: bool = False) -> None:
        since = ", and has changed since it was shown" if changed else ""
        super().__init__(
            f"question session {session_id} in {where} came with this repository: Git tracks its "
            f"files{since}. It was not used, and nothing was changed. `agentforge adopt "
            f"{session_id}` shows it, and makes it yours.",
            session_id=session_id,
        )
        self.where = where
        self.changed = changed


class QuestionStoreError(QuestionError):
    """Where the question sessions are kept, a read or a write failed."""

    kind = ErrorKind.STORAGE
    retryable = True


class QuestionsUnavailable(QuestionStoreError):
    """The store of question sessions does not answer for now; who waits already waits on."""


class AmbiguousSessionId(QuestionError):
    """A shortened id fits several question sessions.

    Attributes:
        candidates: The ids it fits.
    """

    kind = ErrorKind.AMBIGUOUS

    def __init__(self, shortened: str, candidates: Iterable[str]) -> None:
        self.candidates: tuple[str, ...] = tuple(sorted(candidates))
        more = len(self.candidates) - _SHOWN_IDS
        super().__init__(
            f"{shortened} fits {len(self.candidates)} question sessions: "
            f"{', '.join(self.candidates[:_SHOWN_IDS])}{f' and {more} more' if more > 0 else ''}. "
            "Give more of the id.",
            session_id=shortened,
        )


class SessionEnded(QuestionError):
    """The session has ended, so it can't be answered, rejected, abandoned or timed out any more.

    Attributes:
        status: How it ended.
        operation: What was asked: "answer", "reject", "abandon", "time out" or "wait for".
        reason: Why it ended, as far as somebody said so to who waits; or None.
    """

    def __init__(
        self,
        session_id: str,
        *,
        status: SessionStatus,
        operation: str,
        reason: str | None = None,
        message: str | None = None,
    ) -> None:
        super().__init__(
            message
            or f"cannot {operation} question session {session_id}: it {status.phrase}. "
            "Nothing was changed; what it ended with is kept.",
            session_id=session_id,
        )
        self.status = status
        self.operation = operation
        self.reason = reason


class SessionRejected(SessionEnded):
    """The person rejected the questions that somebody waits for; the message is SESSION_REJECTED.

    `reason` is what the person said, or None.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(self, session_id: str, *, status: SessionStatus, reason: str | None) -> None:
        super().__init__(
            session_id,
            status=status,
            operation="wait for",
            reason=reason,
            message="SESSION_REJECTED",
        )


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


class InvalidConfig(FaultyInput):
    """A configuration that can't be used, with everything that is wrong with it.

    Attributes:
        path: The file, or None where the values came from code.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, faults: Iterable[str], *, path: Path | None = None) -> None:
        super().__init__(faults, where=f"{path}: " if path is not None else "")
        self.path = path
