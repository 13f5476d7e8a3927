"""The documents of one session as bytes: what they say together, and how they are changed.

A store that keeps them whole (a row, a value in memory) needs no more than this; files are read
one by one (`session_files`) and say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from attrs import evolve, frozen

from ..disk_errors import SessionCorrupted
from ..domain import QuestionSession, SessionAnswers, SessionRequest, StatusRecord
from ..rules import answer_faults
from ..session_status import SessionStatus
from . import wire
from .json_form import WireError, decode, encode

REQUEST_FILE: Final = "request.json"
STATUS_FILE: Final = "status.json"
ANSWERS_FILE: Final = "answers.json"
READERS: Final[Mapping[str, Any]] = {
    REQUEST_FILE: wire.read_request,
    STATUS_FILE: wire.read_status,
    ANSWERS_FILE: wire.read_answers,
}


class Unsettled(Exception):
    """What was read is not whole, as while another program is writing it.

    Attributes:
        name: The document.
        faults: Everything that is wrong.
    """

    def __init__(self, name: str, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.name = name
        self.faults = faults


def read_document(name: str, data: bytes | None, session_id: str) -> Any:
    """Read one document of a session.

    Raises:
        Unsettled: It is missing, not what it should be, or another session's.
    """
    if data is None:
        raise Unsettled(name, [f"{name}: it is missing"])
    try:
        found = READERS[name](data)
    except WireError as error:
        raise Unsettled(name, list(error.faults)) from error
    if found.session_id != session_id:
        raise Unsettled(name, [f"{name}.sessionId: it is {found.session_id!r}"])
    return found


def may_have_answers(record: StatusRecord) -> bool:
    """Return whether answers beside a status count."""
    return record.status in {SessionStatus.PENDING, SessionStatus.COMPLETED}


def session_of(
    request: SessionRequest, record: StatusRecord, answers: SessionAnswers | None
) -> QuestionSession:
    """Return the session that its documents make.

    Raises:
        Unsettled: The answers are missing, or don't fit.
    """
    if record.status is SessionStatus.PENDING and _is_of_another_call(answers, record, request):
        answers = None  # they answer nothing that was asked here
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


def rewritten(
    kept: bytes | None, document: Mapping[str, Any], name: str, *, only: str | None = None
) -> bytes:
    """Return a document that replaces another one; what that holds besides stays, in its order.

    Args:
        kept: The one that is replaced; None or what can't be read for none.
        document: What is new.
        name: The document's name.
        only: The one key that changes, where there is something to change.
    """
    found: dict[str, Any] = {}
    with suppress(WireError):
        found = {} if kept is None else decode(kept, name)
    changed = {only: document[only]} if only is not None and found else document
    return encode({**found, **changed})


@frozen(kw_only=True)
class Documents:
    """The documents of one session.

    Attributes:
        session_id: The session.
        request: request.json.
        status: status.json.
        answers: answers.json, or None.
    """

    session_id: str
    request: bytes
    status: bytes
    answers: bytes | None = None

    @classmethod
    def of_new(cls, request: SessionRequest, record: StatusRecord) -> Self:
        """Return the documents of what was just asked."""
        return cls(
            session_id=request.session_id,
            request=encode(wire.request_document(request)),
            status=encode(wire.status_document(record)),
        )

    def named(self, name: str) -> bytes | None:
        """Return a document by its name."""
        return {
            REQUEST_FILE: self.request,
            STATUS_FILE: self.status,
            ANSWERS_FILE: self.answers,
        }[name]

    def read(self) -> QuestionSession:
        """Return the session that they make.

        Raises:
            SessionCorrupted: They make none.
        """
        try:
            record = read_document(STATUS_FILE, self.status, self.session_id)
            request = read_document(REQUEST_FILE, self.request, self.session_id)
            answers = None
            if self.answers is not None and may_have_answers(record):
                answers = read_document(ANSWERS_FILE, self.answers, self.session_id)
            return session_of(request, record, answers)
        except Unsettled as error:
            raise SessionCorrupted(self.session_id, faults=error.faults) from error

    def read_record(self) -> StatusRecord:
        """Return the status; answers count. Raises as `read` does."""
        record: StatusRecord = self.part(STATUS_FILE)
        if record.status is SessionStatus.PENDING and self.answers is not None:
            return evolve(record, status=SessionStatus.COMPLETED)
        return record

    def part(self, name: str) -> Any:
        """Return what one document says. Raises as `read` does."""
        try:
            return read_document(name, self.named(name), self.session_id)
        except Unsettled as error:
            raise SessionCorrupted(self.session_id, faults=error.faults) from error


class LockedDocuments:
    """The documents of a session whose lock is held. A `repository.LockedSession`.

    What is written stands in `documents`, for the store to keep when the lock is let go of.
    """

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    @property
    def session_id(self) -> str:
        """The session."""
        return self.documents.session_id

    def read(self) -> QuestionSession:
        """Read it whole; see `LockedSession`."""
        return self.documents.read()

    def read_record(self) -> StatusRecord:
        """Read its status alone, as it was written; see `LockedSession`."""
        record: StatusRecord = self.documents.part(STATUS_FILE)
        return record

    def read_request(self) -> SessionRequest:
        """Read its request alone; see `LockedSession`."""
        request: SessionRequest = self.documents.part(REQUEST_FILE)
        return request

    def write_answers(self, answers: SessionAnswers) -> None:
        """Write the answers; see `LockedSession`."""
        self.documents = evolve(self.documents, answers=encode(wire.answers_document(answers)))

    def write_read_at(self, answers: SessionAnswers) -> None:
        """Note when the answers were fetched; see `LockedSession`."""
        new = wire.answers_document(answers)
        data = rewritten(self.documents.answers, new, ANSWERS_FILE, only="lastReadAt")
        self.documents = evolve(self.documents, answers=data)

    def write_record(self, record: StatusRecord) -> None:
        """Replace the status; see `LockedSession`."""
        data = rewritten(self.documents.status, wire.status_document(record), STATUS_FILE)
        self.documents = evolve(self.documents, status=data)
