"""What single acceptance criteria mean at their edges, for sessions in files."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.harness import (
    InvalidSession,
    InvalidStateTransition,
    NoActiveSession,
    SessionArtifact,
    SessionContext,
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
DAY = 86_400
EVERY_STEP: dict[str, Callable[[SessionManager], object]] = {
    "pause": lambda manager: manager.pause(),
    "resume": lambda manager: manager.resume(),
    "complete": lambda manager: manager.complete(),
    "abort": lambda manager: manager.abort(),
    "advance_phase": lambda manager: manager.advance_phase("green"),
    "retry_phase": lambda manager: manager.retry_phase(),
    "record_tokens": lambda manager: manager.record_tokens(1),
    "extend_budget": lambda manager: manager.extend_budget(1),
    "add_artifact": lambda manager: manager.add_artifact("a.py", "created"),
    "add_history": lambda manager: manager.add_history("noted"),
    "checkpoint_session": lambda manager: manager.checkpoint_session(),
}


def on_disk(manager: SessionManager) -> SessionContext:
    assert manager.current_session is not None
    found = SessionStore(manager.store.base_path).load(manager.current_session.session_id)
    assert found is not None
    return found


def rich_session(manager: SessionManager, clock: FakeClock) -> str:
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


# ---------------------------------------------------------------------------- identity and states


def test_ac_001_a_session_has_the_time_of_its_creation(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create()
    assert session.created_at == session.updated_at == clock.now
    assert session.created_at.tzinfo is UTC
    assert session.session_id.startswith(f"session_{clock.now:%Y%m%d_%H%M%S}_")


def test_ac_003_ids_are_unique_within_one_microsecond_of_one_process(
    manager: SessionManager,
) -> None:
    ids = set()
    for _ in range(20):
        ids.add(manager.create().session_id)
        manager.release()
    assert manager.store.list_sessions() == sorted(ids)
    assert len(ids) == 20


@pytest.mark.parametrize("operation", EVERY_STEP)
@pytest.mark.parametrize("end", ["complete", "abort"])
def test_ac_006_nothing_leaves_a_terminal_state(
    manager: SessionManager, clock: FakeClock, end: str, operation: str
) -> None:
    session = manager.create("tdflow", "red")
    clock.advance(3600)
    EVERY_STEP[end](manager)
    before = on_disk(manager)
    assert before.completed_at == clock.now
    file = manager.store.session_path(session.session_id)
    content = file.read_bytes()
    with pytest.raises(InvalidStateTransition) as caught:
        EVERY_STEP[operation](manager)
    assert (caught.value.current_state, caught.value.operation) == (before.state, operation)
    assert caught.value.session_id == session.session_id
    assert session == before
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("state", "operation"),
    [
        ("active", "resume"),
        *[("paused", one) for one in ("pause", "complete", "advance_phase", "retry_phase")],
    ],
)
def test_ac_006_an_open_session_refuses_what_its_state_does_not_allow(
    manager: SessionManager, state: str, operation: str
) -> None:
    session = manager.create("tdflow", "red")
    if state == "paused":
        manager.pause()
    with pytest.raises(InvalidStateTransition, match=f"it is {state}"):
        EVERY_STEP[operation](manager)
    assert session.state.value == state
    assert on_disk(manager) == session


def test_ac_024_each_transition_is_dated_and_has_its_phase_and_reason(
    manager: SessionManager, clock: FakeClock
) -> None:
    manager.create("tdflow", "red")
    steps: list[Callable[[], object]] = [
        lambda: manager.pause("waiting for a review"),
        manager.resume,
        lambda: manager.advance_phase("green"),
        lambda: manager.abort("the goal was withdrawn"),
    ]
    for step in steps:
        clock.advance(60)
        step()
        assert on_disk(manager).history[-1].timestamp == clock.now
    assert [(one.action, one.phase, one.details) for one in on_disk(manager).history] == [
        ("session_created", "red", None),
        ("session_paused", "red", "waiting for a review"),
        ("session_resumed", "red", None),
        ("phase_advanced", "green", "from red to green"),
        ("session_aborted", "green", "the goal was withdrawn"),
    ]


def test_times_never_go_back_even_if_the_clock_does(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create()
    clock.advance(100)
    manager.add_history("later")
    clock.advance(-500)
    manager.add_history("earlier by the clock")
    times = [entry.timestamp for entry in on_disk(manager).history]
    assert times == sorted(times)
    assert session.updated_at == times[-1] == times[-2]


# ---------------------------------------------------------------------------------------- budget


def test_ac_013_what_was_spent_is_recorded_over_the_budget_too(manager: SessionManager) -> None:
    session = manager.create(token_budget=100)
    manager.record_tokens(250)
    assert (session.token_budget.tokens_used, session.token_budget.tokens_remaining) == (250, -150)
    assert session.token_budget.utilization_percent == pytest.approx(250.0)


@pytest.mark.parametrize(
    ("step", "tokens"),
    [
        *[("record_tokens", one) for one in (0, -1, 1.5, True, "12", None)],
        *[("extend_budget", one) for one in (0, -5, 2.0, 2**63)],
    ],
)
def test_ac_013_016_what_is_no_count_is_refused_and_changes_nothing(
    manager: SessionManager, step: str, tokens: object
) -> None:
    session = manager.create(token_budget=1_000)
    with pytest.raises(InvalidSession):
        getattr(manager, step)(tokens)
    budget = session.token_budget
    assert (budget.tokens_used, budget.total_budget, session.revision) == (0, 1_000, 1)


@pytest.mark.parametrize(
    ("budget", "spent", "warns"),
    [
        *[(1000, 799, False), (1000, 800, True), (1000, 1001, True), (3, 2, False), (7, 6, True)],
        *[(5 * 10**17, 4 * 10**17 - 1, False), (5 * 10**17, 4 * 10**17, True)],
    ],
)
def test_ac_014_the_warning_starts_at_exactly_80_percent(
    manager: SessionManager, budget: int, spent: int, warns: bool
) -> None:
    session = manager.create(token_budget=budget)
    state = manager.record_tokens(spent)
    assert state.is_warning is bool(state) is warns
    assert session.token_budget.is_warning is warns


def test_ac_015_a_session_can_continue_while_it_is_active_and_its_budget_covers_the_step(
    manager: SessionManager,
) -> None:
    session = manager.create(token_budget=1_000)
    manager.record_tokens(900)
    assert [manager.can_continue(one) for one in (100, 101)] == [True, False]
    assert manager.can_continue() is True
    manager.record_tokens(100)
    assert (manager.can_continue(), manager.can_continue(0)) == (False, True)
    manager.extend_budget(500)
    assert [manager.can_continue(one) for one in (500, 501)] == [True, False]
    last = session.history[-1]
    assert (last.action, last.details) == ("budget_extended", "by 500 to 1500 tokens")
    manager.pause()
    assert manager.can_continue() is False
    manager.resume()
    manager.complete()
    assert manager.can_continue(0) is False


# ------------------------------------------------------------- phases, artifacts, the audit trail


def test_ac_017_a_phase_starts_with_its_first_attempt(manager: SessionManager) -> None:
    session = manager.create()
    manager.advance_phase("red")
    assert session.history[-1].details == "to red"
    manager.retry_phase()
    assert session.attempt_number == 2
    manager.advance_phase("green")
    assert on_disk(manager).attempt_number == 1


@pytest.mark.parametrize("phase", ["", "  ", "two\nlines", "x" * 201, None, 7])
def test_ac_017_what_is_no_name_is_no_phase(manager: SessionManager, phase: Any) -> None:
    session = manager.create("tdflow", "red")
    with pytest.raises(InvalidSession):
        manager.advance_phase(phase)
    assert session.current_phase == "red"
    assert on_disk(manager) == session


def test_ac_019_020_artifacts_have_the_current_phase_and_are_listed_in_order(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create("tdflow", "red")
    artifact = manager.add_artifact("a", "created")
    assert artifact == SessionArtifact("a", "created", clock.now, "red")
    manager.advance_phase("green")
    manager.add_artifact("b", "created")
    manager.add_artifact("a", "modified")
    listed = {
        phase: [one.path for one in session.get_artifacts(phase)]
        for phase in ("red", "green", "refactor", None)
    }
    assert listed == {"red": ["a"], "green": ["b", "a"], "refactor": [], None: ["a", "b", "a"]}
    assert on_disk(manager).artifacts == session.artifacts


def test_ac_022_a_paused_session_can_be_checkpointed(manager: SessionManager, base: Path) -> None:
    session = manager.create()
    manager.pause()
    assert manager.checkpoint_session() == base / session.session_id / "session.yaml"
    assert on_disk(manager).history[-1].action == "checkpoint"
    assert on_disk(manager).revision == 3


def test_a_note_of_several_lines_is_in_the_history_with_its_phase(
    manager: SessionManager, clock: FakeClock
) -> None:
    manager.create("spec", "analysis")
    clock.advance(5)
    manager.add_history("question_asked", "Which zone\nare the times in?")
    entry = on_disk(manager).history[-1]
    assert (entry.timestamp, entry.action) == (clock.now, "question_asked")
    assert (entry.phase, entry.details) == ("analysis", "Which zone\nare the times in?")


# --------------------------------------------------------------------------------------- cleanup


@pytest.fixture
def kinds(manager: SessionManager, clock: FakeClock) -> dict[str, str]:
    """One session of each state that ended (or last changed) 10 days ago, and each from today."""
    made = {}
    ends = {"active": "", "paused": "pause", "completed": "complete", "aborted": "abort"}
    for age in ("old", "new"):
        for state, step in ends.items():
            made[f"{age} {state}"] = manager.create().session_id
            if step:
                EVERY_STEP[step](manager)
            manager.release()
            clock.advance(1)
        if age == "old":
            clock.advance(10 * DAY)
    return made


def test_ac_025_027_cleanup_removes_exactly_what_a_dry_run_names(
    manager: SessionManager, kinds: dict[str, str], base: Path
) -> None:
    before = {p: p.stat().st_mtime_ns for p in base.rglob("*")}
    removed = [kinds["old completed"], kinds["old aborted"]]
    assert manager.cleanup_old_sessions(days=7, dry_run=True) == removed
    assert {p: p.stat().st_mtime_ns for p in base.rglob("*")} == before
    assert manager.cleanup_old_sessions(days=7) == removed
    assert {p.name for p in base.iterdir()} == {
        *(".gitkeep", ".prune"),
        *(set(kinds.values()) - set(removed)),
    }


def test_ac_025_the_day_is_counted_from_the_end(manager: SessionManager, clock: FakeClock) -> None:
    session = manager.create()
    clock.advance(30 * DAY)
    manager.complete()
    clock.advance(7 * DAY)
    assert manager.cleanup_old_sessions(days=7) == []  # 7 days are not more than 7
    clock.advance(0.000_001)
    assert manager.cleanup_old_sessions(days=7) == [session.session_id]


NO_DAYS = [-1, float("nan"), float("inf"), True, "30", None, b"3", [30], timedelta(days=30), 1j]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        *[({"days": one}, "days") for one in NO_DAYS],
        *[
            ({"days": 0, "dry_run": one}, "dry_run: expected True or False")
            for one in (None, 0, 1, "no")
        ],
    ],
)
def test_ac_025_what_is_no_number_of_days_or_no_flag_deletes_nothing(
    manager: SessionManager, kinds: dict[str, str], asked: Any, words: str
) -> None:
    with pytest.raises(InvalidSession, match=words):
        manager.cleanup_old_sessions(**asked)
    assert manager.store.list_sessions() == sorted(kinds.values())


def test_ac_026_cleanup_leaves_open_sessions_of_any_age_and_what_it_cannot_read(
    manager: SessionManager, kinds: dict[str, str], clock: FakeClock
) -> None:
    path = manager.store.session_path(kinds["old completed"])
    path.write_text("broken: [")
    clock.advance(10_000 * DAY)
    removed = [kinds["old aborted"], kinds["new completed"], kinds["new aborted"]]
    assert manager.cleanup_old_sessions(days=0) == removed
    assert path.read_text() == "broken: ["
    assert manager.store.list_sessions() == sorted(set(kinds.values()) - set(removed))


# ----------------------------------------------------------------------------------------- files


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
def test_ac_008_an_interrupted_write_leaves_the_original(
    manager: SessionManager, fs: FaultyFileSystem, operation: str
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


def test_ac_008_the_next_writer_removes_what_a_power_failure_at_the_rename_left(
    manager: SessionManager, fs: FaultyFileSystem, base: Path
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    original = path.read_bytes()
    fs.begin(every_call_from(0, errno.EIO, ["rename", "unlink"]))
    with pytest.raises(WriteError):
        manager.add_history("lost")
    left, name = sorted(p.name for p in path.parent.iterdir())
    assert re.fullmatch(r"\.session\.yaml\.new-[0-9a-f]{8}\.tmp", left)
    assert name == "session.yaml"
    assert path.read_bytes() == original

    successor = SessionManager(SessionStore(base))
    assert successor.load(session.session_id) == session
    successor.add_history("noted")
    assert [p.name for p in path.parent.iterdir()] == ["session.yaml"]
    assert [entry.action for entry in on_disk(successor).history] == ["session_created", "noted"]


def test_ac_009_missing_parents_are_made_too_and_nothing_before_the_first_save(
    tmp_path: Path,
) -> None:
    base = tmp_path / "a" / "b" / "sessions"
    manager = SessionManager(SessionStore(base))
    assert manager.list() == []
    assert manager.load("session_20260101_000000_ffffffff") is None
    assert not (tmp_path / "a").exists()
    manager.create()
    assert (base / ".gitkeep").read_bytes() == b""


def test_ac_011_load_of_an_unknown_id_releases_the_current_session(
    manager: SessionManager,
) -> None:
    session = manager.create()
    assert manager.load("session_20260101_000000_ffffffff") is None
    assert manager.current_session is None
    with pytest.raises(NoActiveSession):
        manager.record_tokens(10)
    assert session.token_budget.tokens_used == 0


def test_ac_012_the_error_names_the_file_and_every_fault_with_its_line(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    content = path.read_text().replace("state: active", "state: asleep")
    path.write_text(content.replace("tokens_used: 0", "tokens_used: none"))
    with pytest.raises(SessionCorrupted) as caught:
        SessionStore(base).load(session.session_id)
    assert caught.value.path == path
    assert str(path) in str(caught.value)
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


def test_ac_010_another_process_resumes_a_session_with_all_its_fields_by_its_id_alone(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session_id = rich_session(manager, clock)
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
    found_there, briefing = json.loads(answer.stdout.splitlines()[-1])
    assert found_there == as_plain(session)
    assert "Goal: “Line one. Line two: ünïcode ✓" in briefing
    assert "Phase: refactor" in briefing
    found = manager.reload()
    assert (found.state, found.current_phase) == (SessionState.ACTIVE, "refactor")
    assert [entry.action for entry in found.history[-2:]] == ["session_resumed", "phase_advanced"]
    assert found.history[: len(session.history)] == session.history


def test_ac_029_the_file_is_yaml_that_people_and_safe_load_read(
    manager: SessionManager, clock: FakeClock
) -> None:
    text = manager.store.session_path(rich_session(manager, clock)).read_text()
    session = manager.current_session
    assert session is not None
    read = yaml.safe_load(without_digest(text.encode()))
    assert read == as_plain(session)
    for line in ("state: paused", "current_phase: green", "  tokens_used: 1200"):
        assert f"\n{line}\n" in text
    assert "\ngoal: |-\n  Line one.\n  Line two: ünïcode ✓\n" in text
    assert not re.search("!!|&", text)
    times = [read["created_at"], read["updated_at"]]
    times += [entry["timestamp"] for entry in read["history"] + read["artifacts"]]
    assert {datetime.fromisoformat(one).utcoffset() for one in times} == {timedelta(0)}
    assert read["created_at"] == "2026-03-01T09:30:00.000000+00:00"


def test_ac_030_path_store_clock_and_executor_are_given_from_outside(base: Path) -> None:
    assert SessionManager().store.base_path == DEFAULT_BASE_PATH == Path(".agentforge/sessions")
    clock = FakeClock(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    fs = FaultyFileSystem()
    executor = FakeExecutor.answering([SUCCEEDED])
    manager = SessionManager(
        SessionStore(str(base), fs=fs, token=FakeTokens()), executor=executor, clock=clock
    )
    session = manager.create("tdflow", "red")
    manager.run_phase("print('done')", tokens=7, deadline_s=2.5, fuel=99)
    assert session.session_id == "session_20300102_030405_000000"
    assert session.history[-1].timestamp == clock.now
    [asked] = executor.executions
    assert (asked.code, asked.session_id) == ("print('done')", session.session_id)
    assert (asked.deadline_s, asked.fuel) == (2.5, 99)
    assert {call.operation for call in fs.trace} >= {"fsync", "rename", "flock"}
