"""Checking the files of one session against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.durable import ReadError
from tools.durable.filesystem import DIRECTORY_FLAGS, close_reader
from tools.questions import wire
from tools.questions.domain import (
    SessionAnswers,
    SessionRequest,
    SessionStatus,
    StatusRecord,
    ValidationReport,
)
from tools.questions.rules import answer_faults
from tools.questions.store import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE, QuestionStore

_READERS: dict[str, Any] = {
    REQUEST_FILE: wire.read_request,
    STATUS_FILE: wire.read_status,
    ANSWERS_FILE: wire.read_answers,
}


def find_issues(store: QuestionStore, session_id: str) -> ValidationReport:
    """Return everything that is wrong with a session."""
    path = store.path(session_id)
    try:
        fd = store.fs.open(str(path), DIRECTORY_FLAGS)
    except FileNotFoundError:
        return ValidationReport(session_id=session_id, issues=["Session directory does not exist"])
    except OSError as error:
        return ValidationReport(
            session_id=session_id, issues=[f"Session directory can't be opened: {error.strerror}"]
        )
    issues: list[str] = []
    found: dict[str, Any] = {}
    try:
        for name in _READERS:
            _read_into(found, issues, store, fd, path / name)
    finally:
        close_reader(store.fs, fd)
    issues += [
        f"Session ID mismatch in {name}: {one.session_id}"
        for name, one in found.items()
        if one.session_id != session_id
    ]
    request, record, answers = (found.get(name) for name in _READERS)
    if request is not None and record is not None:
        issues += _status_issues(request, record)
    if request is not None and answers is not None:
        issues += _answer_issues(request, answers)
    if record is not None and record.status is SessionStatus.COMPLETED:
        if answers is None and not any(one.startswith(ANSWERS_FILE) for one in issues):
            issues.append("The status is completed and answers.json is missing")
    elif record is not None and record.status.is_terminal and answers is not None:
        issues.append(f"The status is {record.status.value} and answers.json is there")
    return ValidationReport(session_id=session_id, issues=issues)


def _read_into(
    found: dict[str, Any], issues: list[str], store: QuestionStore, fd: int, path: Path
) -> None:
    """Read one file into `found`, or say in `issues` why it can't be."""
    name = path.name
    try:
        data = store.read_file(fd, path)
        if data is not None:
            found[name] = _READERS[name](data)
        elif name != ANSWERS_FILE:
            issues.append(f"Required file missing: {name}")
    except wire.WireError as error:
        issues += error.faults
    except ReadError as error:
        issues.append(str(error))


def _status_issues(request: SessionRequest, record: StatusRecord) -> list[str]:
    issues = []
    count = len(request.questions)
    if record.total_questions != count:
        issues.append(
            f"Question count mismatch: {record.total_questions} in status.json, "
            f"{count} in request.json"
        )
    if record.call_id != request.call_id:
        issues.append("Call ID mismatch between status.json and request.json")
    if record.last_modified < record.created_at:
        issues.append("status.json: lastModified is before createdAt")
    return issues


def _answer_issues(request: SessionRequest, answers: SessionAnswers) -> list[str]:
    faults = answer_faults(answers.answers, request.questions)
    issues = [f"answers.json: {one}" for one in faults]
    if answers.call_id != request.call_id:
        issues.append("Call ID mismatch between answers.json and request.json")
    return issues
