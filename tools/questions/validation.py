"""Checking the files of one session against each other."""

from __future__ import annotations

from typing import Any

from tools.durable import ReadError
from tools.durable.filesystem import DIRECTORY_FLAGS, close_reader
from tools.questions import wire
from tools.questions.domain import SessionStatus, ValidationReport
from tools.questions.formatting import answer_faults
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
        for name, read in _READERS.items():
            try:
                data = store.read_file(fd, path / name)
                if data is not None:
                    found[name] = read(data)
                elif name != ANSWERS_FILE:
                    issues.append(f"Required file missing: {name}")
            except wire.WireError as error:
                issues += error.faults
            except ReadError as error:
                issues.append(str(error))
    finally:
        close_reader(store.fs, fd)
    issues += [
        f"Session ID mismatch in {name}: {one.session_id}"
        for name, one in found.items()
        if one.session_id != session_id
    ]
    request, record, answers = (
        found.get(name) for name in (REQUEST_FILE, STATUS_FILE, ANSWERS_FILE)
    )
    if request is not None and record is not None:
        count = len(request.questions)
        if record.total_questions != count:
            issues.append(
                f"Question count mismatch: {record.total_questions} in status.json, "
                f"{count} in request.json"
            )
        if record.call_id != request.call_id:
            issues.append("Call ID mismatch between status.json and request.json")
    if record is not None and record.last_modified < record.created_at:
        issues.append("status.json: lastModified is before createdAt")
    if answers is not None and request is not None:
        issues += [
            f"answers.json: {one}" for one in answer_faults(answers.answers, request.questions)
        ]
        if answers.call_id != request.call_id:
            issues.append("Call ID mismatch between answers.json and request.json")
    if record is not None:
        if record.status is SessionStatus.COMPLETED and ANSWERS_FILE not in found:
            if not any(one.startswith(ANSWERS_FILE) for one in issues):
                issues.append("The status is completed and answers.json is missing")
        elif answers is not None and record.status not in {
            SessionStatus.COMPLETED,
            SessionStatus.PENDING,
        }:
            issues.append(f"The status is {record.status.value} and answers.json is there")
    return ValidationReport(session_id=session_id, issues=issues)
