"""The documents of one session: read as a session, changed, and checked against each other.

A store decides how one is read and written: `KeptDocuments` holds them complete (a row, a value in
memory), `session_files.FileDocuments` holds them as files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

from attrs import define, evolve, field

from ...base.files import ReadError
from ..disk_errors import SessionCorrupted
from ..domain import QuestionSession, SessionAnswers, SessionRequest, StatusRecord, ValidationReport
from ..rules import answer_faults, unnumbered_faults
from ..session_status import SessionStatus
from . import wire
from .wire import WireError, decode, encode

REQUEST_FILE: Final = "request.json"
STATUS_FILE: Final = "status.json"
ANSWERS_FILE: Final = "answers.json"
READERS: Final[Mapping[str, Any]] = {
    REQUEST_FILE: wire.read_request,
    STATUS_FILE: wire.read_status,
    ANSWERS_FILE: wire.read_answers,
}

_KNOWN_BYTES: Final = 16 << 10
"""The largest document whose parsed form is cached for the same bytes."""

_Value = TypeVar("_Value")


class Unsettled(Exception):
    """A document is incomplete, as while another program is writing it.

    Attributes:
        name: The document.
        faults: Everything that is wrong.
    """

    def __init__(self, name: str, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.name = name
        self.faults = faults


@lru_cache(maxsize=64)
def _known(name: str, data: bytes) -> Any:
    return READERS[name](data)


def _said(name: str, data: bytes) -> Any:
    """Return a document's content; the same bytes are parsed once."""
    return _known(name, data) if len(data) <= _KNOWN_BYTES else READERS[name](data)


def session_of(
    request: SessionRequest, record: StatusRecord, answers: SessionAnswers | None
) -> QuestionSession:
    """Return the session that its documents describe.

    Raises:
        Unsettled: The answers are missing, or don't fit.
    """
    if record.status is SessionStatus.PENDING and _is_of_another_call(answers, record, request):
        answers = None  # they answer none of these questions
    if answers is None:
        if record.status is SessionStatus.COMPLETED:
            raise Unsettled(ANSWERS_FILE, [f"{ANSWERS_FILE}: it is missing"])
    elif faults := answer_faults(answers.answers, request.questions):
        raise Unsettled(ANSWERS_FILE, [f"{ANSWERS_FILE}: {one}" for one in faults])
    return QuestionSession(request=request, record=record, answers=answers)


def _is_of_another_call(
    answers: SessionAnswers | None, record: StatusRecord, request: SessionRequest
) -> bool:
    asked = record.call_id or request.call_id
    return answers is not None and None not in {asked, answers.call_id} and answers.call_id != asked


class SessionDocuments(ABC):
    """The documents of one session: readable, and under its lock changeable. A `LockedSession`.

    Attributes:
        session_id: The session.
    """

    session_id: str

    @abstractmethod
    def load(self, name: str) -> bytes | None:
        """Return a document; None if it is missing."""

    @abstractmethod
    def keep(self, name: str, data: bytes) -> None:
        """Replace a document.

        Raises:
            QuestionStoreError: The document is unchanged.
        """

    def settled(self, look: Callable[[], _Value]) -> _Value:
        """Return the result of a look.

        Raises:
            SessionCorrupted: The documents are invalid.
        """
        try:
            return look()
        except Unsettled as error:
            raise SessionCorrupted(self.session_id, faults=error.faults) from error

    def read(self) -> QuestionSession:
        """Read the complete session; raises as `settled` does."""
        return self.settled(self._session)

    def read_record(self) -> StatusRecord:
        """Read its status alone, as written; raises as `settled` does."""
        found: StatusRecord = self.settled(lambda: self._part(STATUS_FILE))
        return found

    def read_request(self) -> SessionRequest:
        """Read its request alone; raises as `settled` does."""
        found: SessionRequest = self.settled(lambda: self._part(REQUEST_FILE))
        return found

    def current_record(self) -> StatusRecord:
        """Read its status; answers count. Raises as `settled` does."""
        record = self.read_record()
        if record.status is SessionStatus.PENDING and self.is_answered():
            return evolve(record, status=SessionStatus.COMPLETED)
        return record

    @abstractmethod
    def is_answered(self) -> bool:
        """Return whether there are answers."""

    def _session(self) -> QuestionSession:
        """Read the documents once: the status first, since answers are written before it is."""
        record: StatusRecord = self._part(STATUS_FILE)
        request: SessionRequest = self._part(REQUEST_FILE)
        answers = None
        if record.status in {SessionStatus.PENDING, SessionStatus.COMPLETED}:  # else none count
            data = self.load(ANSWERS_FILE)
            answers = None if data is None else self._checked(ANSWERS_FILE, data)
        return session_of(request, record, answers)

    def _part(self, name: str) -> Any:
        data = self.load(name)
        if data is None:
            raise Unsettled(name, [f"{name}: it is missing"])
        return self._checked(name, data)

    def _checked(self, name: str, data: bytes) -> Any:
        """Return a document's content; raise `Unsettled` if it is invalid or another session's."""
        try:
            found = _said(name, data)
        except WireError as error:
            raise Unsettled(name, list(error.faults)) from error
        if found.session_id != self.session_id:
            raise Unsettled(name, [f"{name}.sessionId: it is {found.session_id!r}"])
        return found

    def write_answers(self, answers: SessionAnswers) -> None:
        """Write the answers, which completes the session. Raises as `keep` does."""
        self.keep(ANSWERS_FILE, encode(wire.answers_document(answers)))

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Record when the answers were fetched; all else in them stays. Raises as `keep` does."""
        self._rewrite(ANSWERS_FILE, wire.answers_document(answers), only="lastReadAt")

    def write_record(self, record: StatusRecord) -> None:
        """Replace the status; other programs' keys in it stay. Raises as `keep` does."""
        self._rewrite(STATUS_FILE, wire.status_document(record))

    def _rewrite(self, name: str, document: Mapping[str, Any], *, only: str | None = None) -> None:
        """Replace a document; its other keys stay, in their order.

        Args:
            name: The document's name.
            document: The new content.
            only: The one key that changes, if there is a document to change.
        """
        found: dict[str, Any] = {}
        with suppress(WireError, ReadError):
            data = self.load(name)
            found = {} if data is None else decode(data, name)
        changed = {only: document[only]} if only is not None and found else document
        self.keep(name, encode({**found, **changed}))


def new_documents(request: SessionRequest, record: StatusRecord) -> dict[str, bytes]:
    """Return the documents of a new request, by their names."""
    return {
        REQUEST_FILE: encode(wire.request_document(request)),
        STATUS_FILE: encode(wire.status_document(record)),
    }


@define
class KeptDocuments(SessionDocuments):
    """The documents of one session, held complete by a store.

    Attributes:
        session_id: The session.
        content: The documents by their names.
        changed: Whether one was replaced.
    """

    session_id: str
    content: dict[str, bytes]
    changed: bool = field(default=False, eq=False)

    def load(self, name: str) -> bytes | None:
        """Return a document; None if it is missing."""
        return self.content.get(name)

    def keep(self, name: str, data: bytes) -> None:
        """Replace a document, for the store to save when the lock is released."""
        self.content = {**self.content, name: data}
        self.changed = True

    def is_answered(self) -> bool:
        """Return whether there are answers."""
        return ANSWERS_FILE in self.content


_UNREADABLE: Final = "Could not read session status or request"


def find_issues(session_id: str, read: Callable[[str], bytes | None]) -> ValidationReport:
    """Return every fault of a session.

    The issues are those that the format names, in its words: the two required files, their ids and
    the number of questions. The answers' content makes no session invalid; its faults are remarks.

    Args:
        session_id: The session, which exists.
        read: Reads a document by its name; None if it is missing.
    """
    files = _ReadableFiles(read)
    return ValidationReport(
        session_id=session_id,
        issues=_issues(files, session_id),
        remarks=[*files.remarks, *_remarks(files, session_id)],
    )


def missing_session(session_id: str) -> ValidationReport:
    """Return the report on a missing session."""
    return ValidationReport(session_id=session_id, issues=["Session directory does not exist"])


class _ReadableFiles:
    """The readable ones of a session's files, and why the rest can't be read."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self.missing: set[str] = set()
        self.remarks: list[str] = []
        found = {name: self._read(read, name) for name in READERS}
        self.request: SessionRequest | None = found[REQUEST_FILE]
        self.record: StatusRecord | None = found[STATUS_FILE]
        self.answers: SessionAnswers | None = found[ANSWERS_FILE]

    def _read(self, read: Callable[[str], bytes | None], name: str) -> Any:
        try:
            data = read(name)
            if data is not None:
                return READERS[name](data)
            self.missing.add(name)
        except WireError as error:
            self.remarks += error.faults
        except ReadError as error:
            self.remarks.append(str(error))
        return None


def _issues(files: _ReadableFiles, session_id: str) -> list[str]:
    required = (REQUEST_FILE, STATUS_FILE)
    issues = [f"Required file missing: {name}" for name in required if name in files.missing]
    request, record = files.request, files.record
    unreadable = (request is None and REQUEST_FILE not in files.missing) or (
        record is None and STATUS_FILE not in files.missing
    )
    if unreadable:
        issues.append(_UNREADABLE)
    if record is not None and record.session_id != session_id:
        issues.append("Session ID mismatch in status file")
    if request is not None and request.session_id != session_id:
        issues.append("Session ID mismatch in request file")
    if (
        request is not None
        and record is not None
        and record.total_questions != len(request.questions)
    ):
        issues.append("Question count mismatch between status and request")
    return issues


def _remarks(files: _ReadableFiles, session_id: str) -> list[str]:
    request, record, answers = files.request, files.record, files.answers
    remarks = []
    if record is not None and record.last_modified < record.created_at:
        remarks.append("status.json: lastModified is before createdAt")
    if answers is not None:
        if answers.session_id != session_id:
            remarks.append(f"answers.json.sessionId: it is {answers.session_id!r}")
        remarks += [f"answers.json: {one}" for one in unnumbered_faults(answers.answers)]
        if request is not None:
            faults = answer_faults(answers.answers, request.questions)
            remarks += [f"answers.json: {one}" for one in faults]
    if record is None or record.status is SessionStatus.PENDING:
        return remarks
    if record.status is not SessionStatus.COMPLETED and ANSWERS_FILE not in files.missing:
        remarks.append(f"The status is {record.status.value} and answers.json is there")
    if record.status is SessionStatus.COMPLETED and ANSWERS_FILE in files.missing:
        remarks.append("The status is completed and answers.json is missing")
    return remarks
