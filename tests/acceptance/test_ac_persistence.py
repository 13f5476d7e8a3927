"""AC-007 … AC-012, AC-029, AC-030: sessions on disk."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.harness import (
    NoActiveSession,
    SessionCorrupted,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.session_layout import DEFAULT_BASE_PATH
from tests.support.clock import FakeClock, FakeTokens
from tests.support.executors import SUCCEEDED, FakeExecutor
from tests.support.filesystem import FaultyFileSystem, every_call_from, nth_of
from tests.support.sessions import as_plain, without_digest

ROOT = Path(__file__).parents[2]


def lead_a_rich_session(manager: SessionManager, clock: FakeClock) -> str:
    """Make a session that has something in every field."""
    session = manager.create("tdflow", "red", 5_000, goal="Line one.\nLine two: ünïcode ✓")
    clock.advance(1.25)
    manager.add_artifact("tests/test_it.py", "created")
    manager.record_tokens(1_200)
    clock.advance(2)
    manager.advance_phase("green")
    manager.retry_phase("the first attempt\nfailed")
    manager.add_artifact("src/it.py", "modified")
    manager.add_history("noted", "key: [value] # no comment")
    manager.pause("no: yes")
    return session.session_id


def test_ac_007_save_writes_session_yaml_in_the_sessions_directory(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()

    path = manager.save()

    assert path == base / session.session_id / "session.yaml"
    assert yaml.safe_load(without_digest(path.read_bytes())) == as_plain(session)
    assert sorted(p.name for p in path.parent.iterdir()) == ["session.yaml"]


def test_ac_007_a_reader_never_sees_a_part_of_a_file(base: Path, clock: FakeClock) -> None:
    writer = SessionManager(SessionStore(base), clock=clock)
    session_id = writer.create("tdflow", "red").session_id
    writer.add_history("filler", "some text\n" * 5_000)
    path = writer.store.session_path(session_id)
    done = threading.Event()
    seen: list[int] = []
    wrong: list[str] = []

    def read() -> None:
        reader = SessionStore(base)
        while not done.is_set():
            data = path.read_bytes()
            if not data.startswith(b"# A session") or not data.endswith(b"\n...\n"):
                wrong.append(repr(data[-40:]))
            try:
                session = reader.load(session_id)
            except SessionCorrupted as error:
                wrong.append(str(error))
                continue
            if session is None:
                wrong.append("no session")
            elif len(session.history) != session.revision:
                wrong.append(f"revision {session.revision}: {len(session.history)} entries")
            else:
                seen.append(session.revision)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    saves = 0
    while saves < 60 or not (wrong or len(seen) > 1):
        writer.add_history("step", f"number {saves}")
        saves += 1
    done.set()
    for thread in threads:
        thread.join()

    assert not wrong, wrong[:3]
    assert max(seen) <= saves + 2


@pytest.mark.parametrize("operation", ["open", "writev", "fsync", "rename"])
def test_ac_008_an_interrupted_write_keeps_the_original(
    manager: SessionManager, fs: FaultyFileSystem, clock: FakeClock, operation: str
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    original = path.read_bytes()
    # A save opens the directory, the old file, and then the new one.
    number = 2 if operation == "open" else 0
    fs.begin(nth_of(operation, number, errno.ENOSPC))

    with pytest.raises(WriteError) as caught:
        manager.add_history("noted")

    assert fs.failed
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == original
    assert [p.name for p in path.parent.iterdir()] == ["session.yaml"]
    fs.begin()
    assert manager.store.load(session.session_id) == session


def test_ac_008_a_writer_killed_before_the_rename_leaves_the_original(
    manager: SessionManager, fs: FaultyFileSystem, base: Path
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    original = path.read_bytes()
    # What a power failure at the rename leaves: nothing after it happens, not even the tidying up.
    fs.begin()
    killed = every_call_from(0, errno.EIO, ["rename", "unlink"])
    fs.begin(killed)
    with pytest.raises(WriteError):
        manager.add_history("lost")
    left, kept = sorted(p.name for p in path.parent.iterdir())
    assert re.fullmatch(r"\.session\.yaml\.new-[0-9a-f]{8}\.tmp", left)
    assert kept == "session.yaml"
    assert path.read_bytes() == original

    successor = SessionManager(SessionStore(base))
    assert successor.load(session.session_id) == session
    successor.add_history("kept")

    assert [p.name for p in path.parent.iterdir()] == ["session.yaml"]
    found = SessionStore(base).load(session.session_id)
    assert found is not None
    assert [entry.action for entry in found.history] == ["session_created", "kept"]


def test_ac_009_the_directory_is_made_with_a_gitkeep(manager: SessionManager, base: Path) -> None:
    assert not base.exists()

    manager.create()

    assert (base / ".gitkeep").is_file()
    assert (base / ".gitkeep").read_bytes() == b""


def test_ac_009_missing_parents_are_made_too_and_nothing_before_the_first_save(
    tmp_path: Path,
) -> None:
    base = tmp_path / "a" / "b" / "sessions"
    manager = SessionManager(SessionStore(base))
    assert manager.list() == []
    assert not (tmp_path / "a").exists()

    manager.create()

    assert (base / ".gitkeep").is_file()


def test_ac_010_load_restores_all_fields(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session_id = lead_a_rich_session(manager, clock)
    saved = manager.current_session
    assert saved is not None

    other = SessionManager(SessionStore(base))
    loaded = other.load(session_id)

    assert loaded is not None
    assert loaded is not saved
    assert as_plain(loaded) == as_plain(saved)
    assert loaded == saved
    assert other.current_session is loaded
    assert loaded.state is SessionState.PAUSED
    assert loaded.attempt_number == 2
    assert loaded.token_budget.tokens_used == 1_200
    assert [a.path for a in loaded.artifacts] == ["tests/test_it.py", "src/it.py"]
    assert loaded.goal == "Line one.\nLine two: ünïcode ✓"


def test_ac_011_load_of_an_unknown_id_gives_none_and_lets_go_of_the_current_session(
    manager: SessionManager,
) -> None:
    session = manager.create()

    assert manager.load("session_20260101_000000_ffffffff") is None

    assert manager.current_session is None
    with pytest.raises(NoActiveSession):
        manager.record_tokens(10)
    assert session.token_budget.tokens_used == 0


def test_ac_011_load_gives_none_where_there_is_no_base_at_all(base: Path) -> None:
    assert SessionManager(SessionStore(base)).load("session_20260101_000000_ffffffff") is None
    assert not base.exists()


def test_ac_012_a_corrupted_file_gives_a_typed_error_that_names_it(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    content = path.read_bytes().replace(b"state: active", b"state: [asleep")
    path.write_bytes(content)

    with pytest.raises(SessionCorrupted) as caught:
        SessionManager(SessionStore(base)).load(session.session_id)

    assert caught.value.path == path
    assert caught.value.faults
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_ac_012_the_error_says_every_fault_with_its_line(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    content = path.read_text().replace("state: active", "state: asleep")
    path.write_text(content.replace("tokens_used: 0", "tokens_used: none"))

    with pytest.raises(SessionCorrupted) as caught:
        SessionStore(base).load(session.session_id)

    state, used = caught.value.faults
    assert state.startswith("line 5: state: ")
    assert used.startswith("line 14: token_budget.tokens_used: ")


RESUME = """
import json, sys
from agentforge_sessions.harness import (SessionManager, SessionStore)
from tests.support.sessions import as_plain

manager = SessionManager(SessionStore(sys.argv[1]))
session = manager.load(sys.argv[2])
told = as_plain(session)
manager.resume()
manager.advance_phase("refactor")
print(json.dumps([told, manager.briefing()]))
"""


def test_another_process_resumes_a_session_by_its_id_alone(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session_id = lead_a_rich_session(manager, clock)
    session = manager.current_session
    assert session is not None

    answer = subprocess.run(
        [sys.executable, "-c", RESUME, str(base), session_id],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    told, briefing = json.loads(answer.stdout.splitlines()[-1])
    assert told == as_plain(session)
    assert "Goal: “Line one. Line two: ünïcode ✓" in briefing
    assert "Phase: refactor" in briefing
    found = manager.reload()
    assert found.state is SessionState.ACTIVE
    assert found.current_phase == "refactor"
    assert [entry.action for entry in found.history[-2:]] == ["session_resumed", "phase_advanced"]
    assert found.history[: len(session.history)] == session.history


def test_ac_029_the_file_is_yaml_that_people_and_safe_load_read(
    manager: SessionManager, clock: FakeClock
) -> None:
    session_id = lead_a_rich_session(manager, clock)
    text = manager.store.session_path(session_id).read_text()
    session = manager.current_session
    assert session is not None

    assert yaml.safe_load(without_digest(text.encode())) == as_plain(session)
    assert "\nstate: paused\n" in text
    assert "\ncurrent_phase: green\n" in text
    assert "\n  tokens_used: 1200\n" in text
    assert "\ngoal: |-\n  Line one.\n  Line two: ünïcode ✓\n" in text
    assert "!!" not in text
    assert "&" not in text


def test_ac_029_times_are_iso_8601_with_their_offset(
    manager: SessionManager, clock: FakeClock
) -> None:
    session_id = lead_a_rich_session(manager, clock)
    read = yaml.safe_load(manager.store.session_path(session_id).read_text())

    times = [read["created_at"], read["updated_at"]]
    times += [entry["timestamp"] for entry in read["history"] + read["artifacts"]]
    for text in times:
        assert isinstance(text, str)
        moment = datetime.fromisoformat(text)
        assert moment.tzinfo is not None
        assert moment.utcoffset() == UTC.utcoffset(None)
    assert read["created_at"] == "2026-03-01T09:30:00.000000+00:00"


def test_ac_030_a_custom_path_as_text_or_path(tmp_path: Path) -> None:
    session = SessionManager(SessionStore(str(tmp_path / "here"))).create()

    found = SessionManager(SessionStore(tmp_path / "here")).load(session.session_id)

    assert found == session


def test_ac_030_the_default_path_is_agentforge_sessions() -> None:
    assert SessionManager().store.base_path == DEFAULT_BASE_PATH == Path(".agentforge/sessions")


def test_ac_030_store_clock_and_executor_are_given_from_outside(base: Path) -> None:
    clock = FakeClock(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    fs = FaultyFileSystem()
    executor = FakeExecutor.answering([SUCCEEDED])
    manager = SessionManager(
        SessionStore(base, fs=fs, token=FakeTokens()),
        executor=executor,
        clock=clock,
    )

    session = manager.create("tdflow", "red")
    manager.run_phase("print('done')", tokens=7, deadline_s=2.5, fuel=99)

    assert session.session_id == "session_20300102_030405_000000"
    assert session.history[-1].timestamp == clock.now
    [asked] = executor.executions
    assert (asked.code, asked.session_id) == ("print('done')", session.session_id)
    assert (asked.deadline_s, asked.fuel) == (2.5, 99)
    assert {call.operation for call in fs.trace} >= {"fsync", "rename", "flock"}
