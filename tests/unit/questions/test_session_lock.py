"""The lock of a question session: its files, its leftovers, and what its errors are called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.questions import SessionNotFound
from agentforge_sessions.questions.disk_errors import SessionBusy
from agentforge_sessions.questions.files.session_files import ANSWERING, LOCK_FILE
from agentforge_sessions.questions.files.store import QuestionStore
from tests.support.questions import MISSING, FakeTime


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / MISSING
    path.mkdir()
    return path


def store_of(directory: Path, **given: float) -> QuestionStore:
    time = FakeTime()
    return QuestionStore(directory.parent, monotonic=time.monotonic, sleep=time.sleep, **given)


def test_a_session_is_locked_by_one_file_and_by_two_while_it_is_answered(directory: Path) -> None:
    store = store_of(directory)
    with store.locked(MISSING):
        assert os.listdir(directory) == [LOCK_FILE]
    with store.locked(MISSING, answering=True):
        assert sorted(os.listdir(directory)) == sorted(ANSWERING)
    assert os.listdir(directory) == []


def test_a_lock_that_another_program_keeps_is_a_busy_session_with_its_holder(
    directory: Path,
) -> None:
    (directory / LOCK_FILE).write_text(str(os.getpid()))
    with (
        pytest.raises(SessionBusy, match=f"pid {os.getpid()} \\(alive\\)") as caught,
        store_of(directory, lock_timeout_s=0.5).locked(MISSING),
    ):
        pass
    assert (caught.value.holder, caught.value.timeout_s) == (f"pid {os.getpid()} (alive)", 0.5)
    assert os.listdir(directory) == [LOCK_FILE]


def test_a_broken_lock_is_logged_with_its_session(directory: Path) -> None:
    (directory / LOCK_FILE).write_bytes(b"4194305")  # more than any pid
    with capture_logs() as logs, store_of(directory).locked(MISSING):
        pass
    assert logs == [
        {
            "event": "question.lock_broken",
            "log_level": "warning",
            "session_id": MISSING,
            "reason": "dead owner",
            "holder": "4194305",
        }
    ]


def test_a_session_that_is_not_there_is_not_found(directory: Path) -> None:
    directory.rmdir()
    with pytest.raises(SessionNotFound), store_of(directory).locked(MISSING):
        pass


def test_what_killed_writers_left_in_a_session_is_swept(directory: Path) -> None:
    for name in (*(".status.json.lock.abc", ".answers.json.new-0011223344556677.tmp", ".other"),):
        (directory / name).write_text("half")
    with store_of(directory).locked(MISSING):
        pass
    assert os.listdir(directory) == [".other"]
