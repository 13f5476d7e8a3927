"""Checking the files of one session against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...base.files import ReadError
from ..domain import SessionAnswers, SessionRequest, StatusRecord, ValidationReport
from ..rules import answer_faults, unnumbered_faults
from ..session_status import SessionStatus
from .documents import ANSWERS_FILE, READERS, REQUEST_FILE, STATUS_FILE
from .wire import WireError

_UNREADABLE: Final = "Could not read session status or request"


def find_issues(session_id: str, read: Callable[[str], bytes | None]) -> ValidationReport:
    """Return every fault of a session.

    The issues are those that the format names, in its words: the two required files, their ids and
    the number of questions. The answers' content makes no session invalid; its faults are remarks.

    Args:
        session_id: The session, which exists.
        read: Reads a document by its name; None if it is missing.
    """
    files = _Files(read)
    return ValidationReport(
        session_id=session_id,
        issues=_issues(files, session_id),
        remarks=[*files.remarks, *_remarks(files, session_id)],
    )


def missing_session(session_id: str) -> ValidationReport:
    """Return the report on a missing session."""
    return ValidationReport(session_id=session_id, issues=["Session directory does not exist"])


class _Files:
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


def _issues(files: _Files, session_id: str) -> list[str]:
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


def _remarks(files: _Files, session_id: str) -> list[str]:
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
