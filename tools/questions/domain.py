"""Question sessions as values, and their state machine. No files, no clock.

A session waits (`pending`) until it is answered, rejected, timed out or abandoned, each of them
final. The wire names are those of the JSON files; see docs/questions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, Self

import attrs
from attrs import frozen

from ..base.identifiers import is_uuid4
from ..base.question import Question, as_tuple, kind_faults, list_faults, text_faults
from .askers import Asker
from .errors import InvalidAnswers, InvalidSessionId, SessionEnded
from .session_status import SessionStatus

TRANSITIONS: Final[Mapping[str, SessionStatus]] = MappingProxyType(
    {
        "answer": SessionStatus.COMPLETED,
        "reject": SessionStatus.REJECTED,
        "time out": SessionStatus.TIMED_OUT,
        "abandon": SessionStatus.ABANDONED,
    }
)
"""The status after each operation on a pending session; no other session can be changed."""


def next_status(session_id: str, status: SessionStatus, operation: str) -> SessionStatus:
    """Return the status after `operation`.

    Raises:
        SessionEnded: It has ended already.
    """
    if status.is_terminal:
        raise SessionEnded(session_id, status=status, operation=operation)
    return TRANSITIONS[operation]


is_session_id: Final = is_uuid4
"""Returns whether a text is a question session's id: a version 4 UUID, in either case."""


def check_session_id(text: object) -> str:
    """Return the text if it is an id.

    Raises:
        InvalidSessionId: It is no id.
    """
    if not is_session_id(text):
        raise InvalidSessionId(text)
    return str(text)


@frozen(kw_only=True)
class UserAnswer:
    """A person's answer to one question.

    Attributes:
        question_index: Which question, from 0. None if another program's entry names none: it
            answers no question, and ours are refused without it.
        selected_option: The chosen label of a single-select question.
        selected_options: The chosen labels of a multi-select question, in the person's order.
        custom_text: Free text; it may accompany selections.
        timestamp: When it was given, aware, or None if it is not known; two answers that differ in
            nothing else are equal.
    """

    question_index: int | None
    selected_option: str | None = None
    selected_options: tuple[str, ...] | None = attrs.field(default=None, converter=as_tuple)
    custom_text: str | None = None
    timestamp: datetime | None = attrs.field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        faults = []
        if self.question_index is not None:
            faults += kind_faults("questionIndex", self.question_index, int, "a whole number")
        for name, text in (
            ("selectedOption", self.selected_option),
            ("customText", self.custom_text),
        ):
            if text is not None:
                faults += text_faults(name, text)
        if self.selected_options is not None:
            wrong = list_faults("selectedOptions", self.selected_options, str, "text")
            faults += wrong
            for i, label in enumerate(() if wrong else self.selected_options):
                faults += text_faults(f"selectedOptions[{i}]", label)
        if faults:
            raise InvalidAnswers(faults)


@frozen(kw_only=True)
class SessionRequest:
    """The request; the content of request.json, which never changes.

    Attributes:
        session_id: The session.
        questions: The questions, in their order.
        status: The status at creation; `StatusRecord` has the current one.
        timestamp: When it was asked, aware.
        call_id: The call of an AI client that asks, or None.
        working_directory: The folder that the asker works in, or None.
        asker: Who waits for the answer, or None if it is not known.
    """

    session_id: str
    questions: tuple[Question, ...] = attrs.field(converter=as_tuple)
    status: SessionStatus
    timestamp: datetime
    call_id: str | None = None
    working_directory: str | None = None
    asker: Asker | None = None


@frozen(kw_only=True)
class StatusRecord:
    """The status of a session; the content of status.json.

    Attributes:
        session_id: The session.
        status: Its status.
        created_at: When it was asked, aware.
        last_modified: When the status changed last, aware; never before `created_at`.
        total_questions: The number of its questions.
        call_id: The call of an AI client that asks, or None.
        rejection_reason: The person's reason for rejecting it, or None.
        end_reason: Why it was abandoned or timed out, if a reason was given.
        working_directory: The folder that the asker works in, or None.
    """

    session_id: str
    status: SessionStatus
    created_at: datetime
    last_modified: datetime
    total_questions: int
    call_id: str | None = None
    rejection_reason: str | None = None
    end_reason: str | None = None
    working_directory: str | None = None

    @classmethod
    def of_new(cls, request: SessionRequest) -> Self:
        """Return the first status of a new request."""
        return cls(
            session_id=request.session_id,
            status=SessionStatus.PENDING,
            created_at=request.timestamp,
            last_modified=request.timestamp,
            total_questions=len(request.questions),
            call_id=request.call_id,
            working_directory=request.working_directory,
        )


@frozen(kw_only=True)
class SessionAnswers:
    """A person's answers; the content of answers.json.

    Attributes:
        session_id: The session.
        answers: One for each answered question.
        timestamp: When they were given, aware.
        call_id: The call that they answer, or None.
        last_read_at: When they were fetched last, aware; None if never.
    """

    session_id: str
    answers: tuple[UserAnswer, ...] = attrs.field(converter=as_tuple)
    timestamp: datetime
    call_id: str | None = None
    last_read_at: datetime | None = None

    def numbered(self) -> list[tuple[int, UserAnswer]]:
        """Return the entries that name a question, each with its index."""
        pairs = [(one.question_index, one) for one in self.answers]
        return [(index, one) for index, one in pairs if index is not None]


@frozen(kw_only=True)
class QuestionSession:
    """A complete session as it was read at one moment.

    Attributes:
        request: The request.
        record: The content of status.json.
        answers: The answers, or None.
        status: The current status. Answers on disk count even while status.json does not say so yet
            (or never will, because the writer was killed).
    """

    request: SessionRequest
    record: StatusRecord
    answers: SessionAnswers | None = None

    @property
    def session_id(self) -> str:
        """Its id."""
        return self.request.session_id

    @property
    def status(self) -> SessionStatus:
        """Its current status."""
        if self.answers is not None and self.record.status is SessionStatus.PENDING:
            return SessionStatus.COMPLETED
        return self.record.status

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions, in their order."""
        return self.request.questions

    @property
    def created_at(self) -> datetime:
        """When it was asked, aware."""
        return self.record.created_at

    @property
    def last_modified(self) -> datetime:
        """When it changed last, aware."""
        return self.record.last_modified

    @property
    def call_id(self) -> str | None:
        """The call of an AI client that asks, or None; it may be added after the request."""
        return self.record.call_id or self.request.call_id

    @property
    def working_directory(self) -> str | None:
        """The folder that the asker works in, or None."""
        return self.request.working_directory or self.record.working_directory

    @property
    def asker(self) -> Asker | None:
        """Who waits for the answer, or None if it is not known."""
        return self.request.asker

    @property
    def rejection_reason(self) -> str | None:
        """The person's reason for rejecting it, or None."""
        return self.record.rejection_reason

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of its questions."""
        return tuple(question.title for question in self.request.questions)


@frozen(kw_only=True)
class ValidationReport:
    """The findings of `validate_session()`.

    Attributes:
        session_id: The session.
        issues: Every fault, in the documented words; empty if there is none.
        remarks: Other oddities, and the details of an issue, for a person.
    """

    session_id: str
    issues: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    remarks: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)

    @property
    def is_valid(self) -> bool:
        """Whether it has no fault."""
        return not self.issues


@frozen(kw_only=True)
class CleanupResult:
    """The result of a clean-up.

    Attributes:
        deleted: The ids of the sessions that were deleted, oldest first.
        kept: The number of sessions that stay: not old enough, pinned or being changed.
        failed: For each session that can't be read or could not be deleted: its id and why.
    """

    deleted: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    kept: int = 0
    failed: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=as_tuple)
