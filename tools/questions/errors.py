"""What can go wrong with a question session, as typed errors with fields."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import ErrorKind, shown
from ..base.identifiers import InvalidIdentifier
from ..base.question import FaultyInput, QuestionError
from .session_status import SessionStatus


class InvalidAnswers(FaultyInput):
    """Answers that don't fit their questions; the session is unchanged."""


class InvalidSessionId(QuestionError, InvalidIdentifier, kind=ErrorKind.USAGE):
    """A text that is no id of a question session; the disk was not touched."""

    message = """Invalid session ID format: {given!r}. A question session's id is a version 4 UUID
    in lower case; nothing was read or written."""
    brief = "Invalid session ID format: {bare}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.session_id = self.given if isinstance(self.given, str) else None

    @property
    def bare(self) -> str:
        """The given value, without the quotes of a text."""
        text = shown(self.given)
        return text[1:-1] if isinstance(self.given, str) and text[-1] in "'\"" else text


class SessionNotFound(QuestionError, LookupError, kind=ErrorKind.NOT_FOUND):
    """There is no such question session (any more)."""

    message = "Session not found: {session_id}"
    session_id: str
    path: Path | None = None
    """The directory that was searched."""


class SessionExists(QuestionError):
    """A question session of this id exists already; it is unchanged."""

    message = """question session {session_id} exists already in {where}; nothing was changed. Wait
    for that one, or create one without an id of your own."""
    session_id: str
    where: str
    """Where the sessions are."""
    path: Path | None = None
    """Its directory; None if it has none."""


class QuestionNotAdopted(QuestionError, kind=ErrorKind.PERSON_NEEDED):
    """A question session came with a repository: no program of this person asked it."""

    message = """question session {session_id} in {where} came with this repository: Git tracks its
    files{since}. It was not used, and nothing was changed. `agentforge session adopt {session_id}`
    shows it, and makes it yours."""
    session_id: str
    where: str
    changed: bool = False
    """Whether it was to be adopted but differs from what was shown."""

    @property
    def since(self) -> str:
        """The clause about a change, or nothing."""
        return ", and has changed since it was shown" if self.changed else ""


class QuestionStoreError(QuestionError, kind=ErrorKind.STORAGE, retryable=True):
    """Base of the errors of the question sessions' store: a read or a write failed."""


class QuestionsRefused(QuestionStoreError):
    """The store of question sessions refused a read or a write; nothing was done."""

    message = "{reason}"
    reason: str


class QuestionsUnavailable(QuestionStoreError):
    """The store of question sessions does not answer for now; waits that have started continue."""

    message = "{reason}"
    reason: str


class SessionEnded(QuestionError):
    """The session has ended, so it can't be answered, rejected, abandoned or timed out any more."""

    message = """cannot {operation} question session {session_id}: it {phrase}. Nothing was changed;
    what it ended with is kept."""
    session_id: str
    status: SessionStatus
    """How it ended."""
    operation: str
    """The refused operation: "answer", "reject", "abandon", "time out" or "wait for"."""
    reason: str | None = None
    """Why it ended, if a reason was given to those who wait."""

    @property
    def phrase(self) -> str:
        """How it ended, in words."""
        return self.status.phrase


class SessionRejected(SessionEnded, kind=ErrorKind.NOT_DONE):
    """The person rejected questions that somebody waits for; `reason` has their words."""

    message = "SESSION_REJECTED"
    operation: str = "wait for"


class AnswersTimeout(QuestionError, TimeoutError, kind=ErrorKind.TIMEOUT, retryable=True):
    """No answer came within the wait."""

    brief = """Session {session_id} timed out waiting for user response: Timeout waiting for user
    response"""
    session_id: str
    timeout_s: float
    ended: bool
    """Whether the session was ended as timed out; if not, it can still be answered."""

    def __str__(self) -> str:
        became = (
            "the session has timed out"
            if self.ended
            else "the session still waits and can be answered; wait for it again by its id"
        )
        return (
            f"no answer to question session {self.session_id} within "
            f"{round(self.timeout_s, 1):,} s; {became}."
        )


class CallIdMismatch(QuestionError):
    """The session or its answers belong to another call than the waiting one."""

    message = """question session {session_id} belongs to {found}, not to call {expected!r}; its
    answers were not taken, and nothing was changed."""
    session_id: str
    expected: str
    """The call id that was expected."""
    actual: str | None
    """The call id that is on disk."""

    @property
    def found(self) -> str:
        """The call that the session belongs to, in words."""
        return "no call" if self.actual is None else f"call {self.actual!r}"


class NoAnswers(QuestionError):
    """A session has no answers, so nothing could be recorded about them."""

    message = "Session {session_id} has no answers to mark as read"
    session_id: str


class TooManySessions(QuestionError, retryable=True):
    """The maximum number of sessions wait already."""

    message = """{waiting} question sessions wait already and max_sessions is {max_sessions};
    nothing was created. Answer or reject some, or raise max_sessions."""
    waiting: int
    max_sessions: int


class InvalidConfig(FaultyInput, kind=ErrorKind.INVALID_FILE, kw_only=True):
    """A configuration that can't be used; it names every fault."""

    path: Path | None = None
    """The file, or None if the values came from code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.where = f"{self.path}: " if self.path is not None else ""
