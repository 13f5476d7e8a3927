"""Checking the files of one session against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ..durable import ReadError
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from . import wire
from .domain import SessionAnswers, SessionRequest, StatusRecord, ValidationReport
from .json_fields import WireError
from .rules import answer_faults, unnumbered_faults
from .session_files import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE
from .session_status import SessionStatus
from .store import QuestionStore

_READERS: Final[dict[str, Any]] = {
    REQUEST_FILE: wire.read_request,
    STATUS_FILE: wire.read_status,
    ANSWERS_FILE: wire.read_answers,
}


_UNREADABLE: Final = "Could not read session status or request"


def find_issues(store: QuestionStore, session_id: str) -> ValidationReport:
    """Return everything that is wrong with a session.

    The issues are those that the format names, in its words: the directory, the two required
    files, their ids and the number of questions. What the answers hold makes no session invalid;
    it is remarked.
    """
    path = store.path(session_id)
    try:
        fd = store.fs.open(str(path), DIRECTORY_FLAGS)
    except FileNotFoundError:
        return ValidationReport(session_id=session_id, issues=["Session directory does not exist"])
    except OSError as error:
        return ValidationReport(
            session_id=session_id, issues=[f"Session directory can't be opened: {error.strerror}"]
        )
    try:
        files = _Files(store, fd, path)
        return ValidationReport(
            session_id=session_id,
            issues=_issues(files, session_id),
            remarks=[*files.remarks, *_remarks(files, session_id)],
        )
    finally:
        close_reader(store.fs, fd)


class _Files:
    """What can be read of a session's files, and why the rest can't."""

    def __init__(self, store: QuestionStore, fd: int, path: Path) -> None:
        self.missing: set[str] = set()
        self.remarks: list[str] = []
        found = {name: self._read(store, fd, path / name) for name in _READERS}
        self.request: SessionRequest | None = found[REQUEST_FILE]
        self.record: StatusRecord | None = found[STATUS_FILE]
        self.answers: SessionAnswers | None = found[ANSWERS_FILE]

    def _read(self, store: QuestionStore, fd: int, path: Path) -> Any:
        try:
            data = store.files.read(fd, path)
            if data is not None:
                return _READERS[path.name](data)
            self.missing.add(path.name)
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
