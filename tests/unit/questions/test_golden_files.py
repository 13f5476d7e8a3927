"""The files of another program of this format are read as it means them, and written as it does."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.questions import QuestionError, SessionCorrupted, SessionStatus
from agentforge_sessions.questions.files import wire
from tests.support.questions import FakeTime, build

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "question_sessions" / "sessions"
CASES: Final[list[dict[str, Any]]] = json.loads((GOLDEN / "index.json").read_text("utf-8"))["cases"]
READABLE: Final = [one for one in CASES if one["case"] != "broken_status_corrupt"]
NO_JSON: Final = {"broken_status_corrupt/status.json"}
FILES: Final = sorted(
    one
    for one in GOLDEN.glob("*/*/*.json")
    if f"{one.parent.parent.name}/{one.name}" not in NO_JSON
)


def directory_of(case: dict[str, Any]) -> Path:
    return GOLDEN / case["case"] / case["sessionId"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "questions"


@pytest.mark.parametrize("case", CASES, ids=lambda one: one["case"])
def test_a_session_stands_where_its_program_says(base: Path, case: dict[str, Any]) -> None:
    shutil.copytree(directory_of(case), base / case["sessionId"])
    time = FakeTime()
    sessions = build(base, sleep=time.sleep, monotonic=time.monotonic)
    if case not in READABLE:
        with pytest.raises(SessionCorrupted):
            sessions.get(case["sessionId"])
        assert not sessions.validate_session(case["sessionId"]).is_valid
        return
    found = sessions.get(case["sessionId"])
    assert found.status is SessionStatus(case["status"])
    report = sessions.validate_session(case["sessionId"])
    assert {"issues": list(report.issues), "isValid": report.is_valid} == case["validate"]


def test_all_sessions_of_a_directory_are_listed_though_one_is_broken(base: Path) -> None:
    for case in CASES:
        shutil.copytree(directory_of(case), base / case["sessionId"])
    time = FakeTime()
    sessions = build(base, sleep=time.sleep, monotonic=time.monotonic)
    unreadable: list[str] = []
    listed = sessions.list_sessions(on_unreadable=lambda one: unreadable.append(one.session_id))
    assert {one.session_id: one.status.value for one in listed} == {
        one["sessionId"]: one["status"] for one in READABLE
    }
    assert unreadable == [one["sessionId"] for one in CASES if one not in READABLE]
    expected = {one["sessionId"] for one in READABLE if one["status"] == "pending"}
    assert {one.session_id for one in sessions.pending()} == expected


def read_and_write_again(file: Path) -> bytes:
    data = file.read_bytes()
    match file.name:
        case "status.json":
            return wire.encode(wire.status_document(wire.read_status(data)))
        case "answers.json":
            return wire.encode(wire.answers_document(wire.read_answers(data)))
        case _:
            return wire.encode(wire.request_document(wire.read_request(data)))


@pytest.mark.parametrize("file", FILES, ids=lambda one: f"{one.parent.parent.name}-{one.stem}")
def test_a_file_that_is_read_and_written_has_the_same_bytes(file: Path) -> None:
    data = file.read_bytes()
    if data == b"null":
        with pytest.raises(wire.WireError, match="expected an object, found nothing"):
            wire.read_answers(data)
        return
    by_hand = file.parent.parent.name == "completed_only_answers_file"
    if by_hand and file.name == "answers.json":  # written without indentation
        assert json.loads(read_and_write_again(file)) == json.loads(data)
        return
    assert wire.encode(json.loads(data)) == data
    document = json.loads(data)
    if file.name == "request.json":  # the keys of a question come as its asker typed them
        served = ("options", "prompt", "title", "multiSelect")
        document["questions"] = [
            {key: one[key] for key in served}
            | {"options": [dict(sorted(option.items())) for option in one["options"]]}
            for one in document["questions"]
        ]
    assert read_and_write_again(file) == wire.encode(document)
    if file.parent.parent.name == "pending_nonblocking":  # as the other program's server writes
        assert read_and_write_again(file) == data


def test_a_rejection_adds_the_reason_and_changes_no_other_byte(base: Path) -> None:
    (case,) = [one for one in CASES if one["case"] == "pending_nonblocking"]
    shutil.copytree(directory_of(case), base / case["sessionId"])
    path = base / case["sessionId"] / "status.json"
    before = json.loads(path.read_bytes())
    moment = datetime.fromisoformat("2026-11-22T00:00:00+00:00")
    build(base, clock=lambda: moment).reject_session(case["sessionId"])
    changed = {"status": "rejected", "lastModified": "2026-11-22T00:00:00.000Z"}
    assert path.read_bytes() == wire.encode({**before, **changed, "rejectionReason": None})


@pytest.mark.parametrize("status", ["in-progress", "elaborate_requested", "rephrase_requested"])
def test_a_status_that_we_do_not_know_still_waits(base: Path, status: str) -> None:
    (case,) = [one for one in CASES if one["case"] == "pending"]
    shutil.copytree(directory_of(case), base / case["sessionId"])
    path = base / case["sessionId"] / "status.json"
    path.write_text(path.read_text().replace('"pending"', f'"{status}"'))
    sessions = build(base)
    assert [one.session_id for one in sessions.pending()] == [case["sessionId"]]
    sessions.reject_session(case["sessionId"], "no")
    assert json.loads(path.read_text())["status"] == "rejected"


def test_ids_in_upper_case_are_seen(base: Path) -> None:
    (case,) = [one for one in CASES if one["case"] == "pending"]
    upper = case["sessionId"].upper()
    shutil.copytree(directory_of(case), base / upper)
    for file in (base / upper).iterdir():
        file.write_text(file.read_text("utf-8").replace(case["sessionId"], upper), "utf-8")
    sessions = build(base)
    assert [one.session_id for one in sessions.list_sessions()] == [upper]
    assert sessions.resolve_id(upper[:8]) == sessions.resolve_id(case["sessionId"][:8]) == upper
    assert sessions.get(upper).session_id == upper
    assert sessions.validate_session(upper).is_valid


def test_an_error_is_one_of_ours_whatever_is_in_the_files(base: Path) -> None:
    for case in CASES:
        for name in ("request.json", "status.json", "answers.json"):
            target = base / case["sessionId"]
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(directory_of(case), target)
            (target / name).write_bytes(b"\xef\xbb\xbf[1")
            time = FakeTime()
            sessions = build(base, sleep=time.sleep, monotonic=time.monotonic)
            with suppress(QuestionError):
                sessions.get(case["sessionId"])
