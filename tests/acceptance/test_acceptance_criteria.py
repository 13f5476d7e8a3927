"""The acceptance criteria of the session manager: one test for each, with its text.

Each holds in files and in a database. What a criterion says of a file is a test of files alone;
beside it is what the database has in its stead. `test_criteria_in_detail` tests single criteria at
their edges.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreError
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionContext,
    SessionCorrupted,
    SessionManager,
    SessionState,
    SessionStore,
    WriteError,
)
from tests.support.clock import FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem, nth_of
from tests.support.listing import names_in
from tests.support.postgres import PostgresServer
from tests.support.promptness import wait_until
from tests.support.sessions import as_plain, without_digest

ROOT = Path(__file__).parents[2]
DAYS = timedelta(days=1).total_seconds()


IN_FILES = pytest.mark.parametrize("store", ["files"], indirect=True)
IN_A_DATABASE = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@pytest.fixture(params=["files", "postgres"])
def store(request: pytest.FixtureRequest, base: Path, fs: FaultyFileSystem) -> LocalSessions:
    """A store of each kind, for the manager."""
    if request.param == "files":
        return SessionStore(base, fs=fs, token=FakeTokens(), lock_timeout_s=0.5)
    return PostgresStore(request.getfixturevalue("database"), base)


def anew(store: LocalSessions) -> LocalSessions:
    """Return a store as another process opens it; that of a database remembers no session."""
    return SessionStore(store.base_path) if isinstance(store, SessionStore) else store


def stored(manager: SessionManager) -> SessionContext:
    """Return the current session as another process finds it."""
    assert manager.current_session is not None
    found = anew(manager.store).load(manager.current_session.session_id)
    assert found is not None
    return found


def document(manager: SessionManager) -> str:
    """Return the current session as the text that a person reads."""
    assert manager.current_session is not None
    found = anew(manager.store).read_document(manager.current_session.session_id)
    assert found is not None
    return found.decode()


def actions(session: SessionContext) -> list[str]:
    return [entry.action for entry in session.history]


def test_ac_001(manager: SessionManager) -> None:
    """Given a SessionManager instance exists, when create() is called with no parameters, then a
    new session is created with a unique ID, ACTIVE state and a 100K token budget."""
    session = manager.create()

    assert re.fullmatch(r"session_\d{8}_\d{6}_\d{6}", session.session_id)
    assert session.state is SessionState.ACTIVE
    assert session.token_budget.total_budget == 100_000
    assert stored(manager) == session


def test_ac_002(manager: SessionManager) -> None:
    """Given a SessionManager instance exists, when create() is called with workflow_type='spec' and
    token_budget=50000, then a new session is created with that workflow type and a 50K budget."""
    session = manager.create(workflow_type="spec", token_budget=50_000)

    assert (session.workflow_type, session.token_budget.total_budget) == ("spec", 50_000)
    assert stored(manager) == session


def test_ac_003(store: LocalSessions) -> None:
    """Given two sessions created in rapid succession, when the session IDs are compared, then the
    IDs are unique due to microsecond precision."""
    ids = [SessionManager(anew(store)).create().session_id for _ in range(20)]

    assert len(set(ids)) == 20
    assert anew(store).list_sessions() == ids  # in the order of creation


def test_ac_004(manager: SessionManager) -> None:
    """Given a session in ACTIVE state, when pause() is called, then the session transitions to
    PAUSED and a history entry is recorded."""
    manager.create()

    session = manager.pause()

    assert session.state is SessionState.PAUSED
    assert actions(stored(manager)) == ["session_created", "session_paused"]


def test_ac_005(manager: SessionManager) -> None:
    """Given a session in PAUSED state, when resume() is called, then the session transitions to
    ACTIVE and a history entry is recorded."""
    manager.create()
    manager.pause()

    session = manager.resume()

    assert session.state is SessionState.ACTIVE
    assert actions(stored(manager))[-1] == "session_resumed"


def test_ac_006(manager: SessionManager) -> None:
    """Given a session in COMPLETED state, when pause() is called, then the operation fails with an
    InvalidStateTransition error."""
    manager.create()
    manager.complete()

    with pytest.raises(InvalidStateTransition) as caught:
        manager.pause()

    assert caught.value.user_message == "Cannot transition from completed to paused."


@IN_FILES
def test_ac_007(manager: SessionManager, base: Path, fs: FaultyFileSystem) -> None:
    """Given an active session with state changes, when save() is called, then session.yaml is
    written atomically with all fields serialized."""
    session = manager.create("spec", "analyze", goal="a goal")
    session.goal = "another goal"
    fs.begin()

    path = manager.save()

    assert path == base / session.session_id / "session.yaml"
    assert yaml.safe_load(without_digest(path.read_bytes())) == as_plain(session)
    done = [call.operation for call in fs.trace if call.operation in {"fsync", "rename"}]
    assert done == ["fsync", "rename", "fsync"]


@IN_A_DATABASE
def test_ac_007_in_a_database(manager: SessionManager) -> None:
    """The same of a row: all of a change is there, in the form of the file."""
    session = manager.create("spec", "analyze", goal="a goal")
    session.goal = "another goal"

    manager.save()

    stored = yaml.safe_load(document(manager))
    assert stored == {**as_plain(session), "digest": stored["digest"]}


@IN_FILES
def test_ac_008(manager: SessionManager, fs: FaultyFileSystem) -> None:
    """Given a process interrupted during save(), when the save operation is incomplete, then the
    original session.yaml remains intact (atomic write)."""
    session = manager.create()
    path = manager.store.session_path(session.session_id)
    content = path.read_bytes()
    session.goal = "lost"
    fs.begin(nth_of("fsync", 0, errno.EIO))

    with pytest.raises(WriteError):
        manager.save()

    assert path.read_bytes() == content


@IN_A_DATABASE
def test_ac_008_in_a_database(
    manager: SessionManager, database: Database, server: PostgresServer
) -> None:
    """The same of a server that ends the connection in the middle of a save."""
    session = manager.create()
    before = document(manager)
    session.goal = "lost"
    refused: list[StoreError] = []

    def save() -> None:
        try:
            manager.save()
        except StoreError as error:
            refused.append(error)

    with psycopg.connect(database.url) as other:
        other.execute("select 1 from agentforge.sessions for update")
        saving = threading.Thread(target=save)
        saving.start()
        wait_until(lambda: waiting(server, database))
        server.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' "
            f"and datname = '{other.info.dbname}'"
        )
        saving.join()

    assert [error.retryable for error in refused] == [True]
    assert document(manager) == before


def waiting(server: PostgresServer, database: Database) -> bool:
    """Return whether a statement in a database waits for a lock."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        found = connection.execute(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = %s",
            (urlsplit(database.url).path[1:],),
        )
        return found.fetchone() is not None


def test_ac_009(base: Path) -> None:
    """Given the sessions directory does not exist, when the first session is created, then the
    directory is created with a .gitkeep file."""
    assert not base.exists()

    session = SessionManager(base).create()

    assert names_in(base) == [".gitkeep", session.session_id]


def test_ac_010(manager: SessionManager, clock: FakeClock) -> None:
    """Given a valid session.yaml exists for the session_id, when load(session_id) is called, then a
    SessionContext is returned with all fields restored."""
    session = manager.create("tdflow", "red", 5_000, goal="two\nlines")
    clock.advance(1.5)
    manager.add_artifact("src/a.py", "created")
    manager.record_tokens(4_500)
    manager.retry_phase("again")
    manager.abort("enough")

    found = SessionManager(anew(manager.store)).load(session.session_id)

    assert found == session
    assert found is not None
    assert isinstance(found.state, SessionState)
    assert isinstance(found.completed_at, datetime)


def test_ac_011(manager: SessionManager) -> None:
    """Given no session.yaml exists for the session_id, when load(session_id) is called, then None
    is returned."""
    assert manager.load("session_20260101_000000_000000") is None


@IN_FILES
def test_ac_012(manager: SessionManager) -> None:
    """Given a corrupted session.yaml exists, when load(session_id) is called, then an error is
    returned with a descriptive message, and nothing crashes."""
    session_id = manager.create().session_id
    path = manager.store.session_path(session_id)
    path.write_text("state: [active\n")

    with pytest.raises(SessionCorrupted) as caught:
        manager.load(session_id)

    assert caught.value.user_message.startswith(
        f"Session {session_id} state file is corrupted: line "
    )
    assert path.read_text() == "state: [active\n"


@IN_A_DATABASE
def test_ac_012_in_a_database(manager: SessionManager, database: Database) -> None:
    """The same of rows that say no session."""
    session_id = manager.create().session_id
    with database.connection() as connection:
        connection.execute(
            "update agentforge.sessions set updated_at = created_at - interval '1 day'"
        )

    with pytest.raises(SessionCorrupted) as caught:
        manager.load(session_id)

    assert caught.value.user_message.startswith(f"Session {session_id} state file is corrupted: ")


def test_ac_013(manager: SessionManager) -> None:
    """Given a session with 100K budget and 0 tokens used, when record_tokens(50000) is called, then
    tokens_used=50000, tokens_remaining=50000, utilization=50%."""
    manager.create()

    manager.record_tokens(50_000)

    budget = stored(manager).token_budget
    assert (budget.tokens_used, budget.tokens_remaining) == (50_000, 50_000)
    assert budget.utilization_percent == 50.0


def test_ac_014(manager: SessionManager) -> None:
    """Given a session with 80K tokens used of 100K budget, when token usage is checked, then the
    budget warning is indicated (utilization >= 80%)."""
    session = manager.create()

    assert manager.record_tokens(80_000).is_warning
    assert session.token_budget.is_warning


def test_ac_015(manager: SessionManager) -> None:
    """Given a session with 95K tokens used, when can_continue(10000) is called, then it returns
    False (would exceed the budget)."""
    manager.create()
    manager.record_tokens(95_000)

    assert manager.can_continue(10_000) is False


def test_ac_016(manager: SessionManager) -> None:
    """Given a session at its budget limit, when extend_budget(50000) is called, then total_budget
    is increased to 150K and operations can continue."""
    manager.create()
    manager.record_tokens(100_000)
    assert manager.can_continue() is False

    manager.extend_budget(50_000)

    assert stored(manager).token_budget.total_budget == 150_000
    assert manager.can_continue(50_000) is True


def test_ac_017(manager: SessionManager) -> None:
    """Given a session in phase 'analyze', when advance_phase('implement') is called, then the phase
    is updated, a checkpoint saved and history recorded."""
    session = manager.create("spec", "analyze")

    manager.advance_phase("implement")

    assert stored(manager) == session
    assert session.current_phase == "implement"
    assert actions(session)[-1] == "phase_advanced"


def test_ac_018(manager: SessionManager) -> None:
    """Given a session with workflow_type='tdflow', when its phase transitions through
    RED->GREEN->REFACTOR, then each transition triggers an auto-checkpoint."""
    manager.create("tdflow", "RED")
    for phase in ("GREEN", "REFACTOR"):
        manager.advance_phase(phase)
        assert stored(manager).current_phase == phase


def test_ac_019(manager: SessionManager, clock: FakeClock) -> None:
    """Given an active session, when add_artifact('src/foo.py', 'created', 'implement') is called,
    then the artifact is recorded with timestamp and phase."""
    manager.create("spec", "analyze")
    clock.advance(5)

    manager.add_artifact("src/foo.py", "created", "implement")

    [artifact] = stored(manager).artifacts
    assert (artifact.path, artifact.artifact_type) == ("src/foo.py", "created")
    assert (artifact.timestamp, artifact.phase) == (clock.now, "implement")


def test_ac_020(manager: SessionManager) -> None:
    """Given a session with artifacts from multiple phases, when get_artifacts(phase='implement') is
    called, then only artifacts from the 'implement' phase are returned."""
    manager.create("spec", "analyze")
    manager.add_artifact("notes.md", "created")
    manager.advance_phase("implement")
    manager.add_artifact("src/foo.py", "created")

    assert [one.path for one in manager.get_artifacts(phase="implement")] == ["src/foo.py"]


def test_ac_021(manager: SessionManager) -> None:
    """Given a session advances from phase A to phase B, when advance_phase() completes, then the
    session state is automatically persisted to YAML."""
    manager.create("custom", "A")

    manager.advance_phase("B")

    assert yaml.safe_load(document(manager))["current_phase"] == "B"


def test_ac_022(manager: SessionManager, clock: FakeClock) -> None:
    """Given mid-phase work in progress, when checkpoint_session() is called explicitly, then the
    current state is persisted without a phase change."""
    session = manager.create("spec", "implement")
    clock.advance(60)

    manager.checkpoint_session()

    assert stored(manager) == session
    assert (session.current_phase, session.updated_at) == ("implement", clock.now)


def test_ac_023(manager: SessionManager, clock: FakeClock) -> None:
    """Given a new session is created, when its history is examined, then it contains a
    'session_created' entry with a timestamp."""
    manager.create()

    [entry] = stored(manager).history
    assert (entry.action, entry.timestamp) == ("session_created", clock.now)


def test_ac_024(manager: SessionManager, clock: FakeClock) -> None:
    """Given a session with multiple operations, when its history is examined, then all state
    transitions and phase changes are recorded chronologically."""
    manager.create("spec", "analyze")
    for step in (manager.pause, manager.resume, lambda: manager.advance_phase("implement")):
        clock.advance(1)
        step()
    manager.complete()

    history = stored(manager).history
    assert [entry.action for entry in history] == [
        *("session_created", "session_paused", "session_resumed"),
        *("phase_advanced", "session_completed"),
    ]
    assert [entry.timestamp for entry in history] == sorted(entry.timestamp for entry in history)


def test_ac_025(manager: SessionManager, clock: FakeClock) -> None:
    """Given a mix of old COMPLETED and ACTIVE sessions, when cleanup_old_sessions(30) is called,
    then only COMPLETED/ABORTED sessions older than 30 days are removed."""
    kept = [manager.create().session_id]
    manager.release()
    old = []
    for end in (manager.complete, manager.abort):
        old.append(manager.create().session_id)
        end()
    clock.advance(31 * DAYS)
    kept.append(manager.create().session_id)
    manager.complete()

    assert manager.cleanup_old_sessions(30) == old
    assert manager.store.list_sessions() == kept


def test_ac_026(manager: SessionManager, clock: FakeClock) -> None:
    """Given a PAUSED session from 60 days ago, when cleanup_old_sessions(30) is called, then the
    session is preserved (not deleted despite its age)."""
    session = manager.create()
    manager.pause()
    clock.advance(60 * DAYS)

    assert manager.cleanup_old_sessions(30) == []
    assert manager.exists(session.session_id)


def test_ac_027(manager: SessionManager, clock: FakeClock) -> None:
    """Given sessions to clean up, when cleanup_old_sessions(30, dry_run=True) is called, then the
    list of sessions is returned but nothing is deleted."""
    session = manager.create()
    manager.complete()
    clock.advance(31 * DAYS)

    assert manager.cleanup_old_sessions(30, dry_run=True) == [session.session_id]
    assert manager.exists(session.session_id)


KILLED_WHILE_IT_SAVES = """
import os, signal, sys
from tests.support.filesystem import FaultyFileSystem
from agentforge_sessions.harness import (SessionManager, SessionStore)

fs = FaultyFileSystem()
manager = SessionManager(SessionStore(sys.argv[1], fs=fs))
manager.open(sys.argv[2])

def die(_, call):
    if call.operation == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

fs.begin(die)
manager.advance_phase("never")
"""


@IN_FILES
@pytest.mark.parametrize("instant", ["writev", "fsync", "rename"])
def test_ac_028(manager: SessionManager, base: Path, instant: str) -> None:
    """Given a process killed during a save operation, when the system restarts and loads the
    session, then the previous valid state is intact (no partial writes)."""
    session = manager.create("spec", "analyze")

    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_IT_SAVES, str(base), session.session_id, instant],
        cwd=ROOT,
        check=False,
        timeout=100,
    )

    assert killed.returncode == -signal.SIGKILL
    assert SessionManager(base).open(session.session_id) == session
    manager.advance_phase("implement")
    assert stored(manager).current_phase == "implement"


KILLED_WHILE_IT_SAVES_ROWS = """
import sys
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.fleet.stores import open_sessions

manager = SessionManager(open_sessions(sys.argv[1], store=sys.argv[2]))
manager.open(sys.argv[3])
manager.advance_phase("never")
"""


@IN_A_DATABASE
def test_ac_028_in_a_database(
    manager: SessionManager, base: Path, database: Database, server: PostgresServer
) -> None:
    """The same of a process that is killed while the server works on its save."""
    session = manager.create("spec", "analyze")
    with psycopg.connect(database.url) as other:
        other.execute("select 1 from agentforge.sessions for update")
        saving = subprocess.Popen(
            [
                *(sys.executable, "-c", KILLED_WHILE_IT_SAVES_ROWS),
                *(str(base), database.url, session.session_id),
            ],
            cwd=ROOT,
        )
        try:
            wait_until(lambda: waiting(server, database))
        finally:
            saving.kill()
            saving.wait()
        server.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' "
            f"and datname = '{other.info.dbname}'"
        )

    assert SessionManager(anew(manager.store)).open(session.session_id) == session
    manager.advance_phase("implement")
    assert stored(manager).current_phase == "implement"


def test_ac_029(manager: SessionManager) -> None:
    """Given a saved session state, when session.yaml is opened in a text editor, then the content
    is readable and properly formatted YAML."""
    session = manager.create("spec", "analyze", goal="Line one.\n\n  Line two.")
    lines = document(manager).splitlines()

    assert "state: active" in lines[:6]
    assert "token_budget:" in lines
    assert lines[lines.index("goal: |-") + 1 :][:3] == ["  Line one.", "", "    Line two."]
    assert not any("{" in line for line in lines)
    assert yaml.safe_load("\n".join(lines))["created_at"].endswith("+00:00")
    assert session.created_at.tzinfo is UTC


def test_ac_030(tmp_path: Path) -> None:
    """Given a unit test with a temporary directory, when a SessionManager is created with a temp
    path, then all operations work in an isolated test environment."""
    manager = SessionManager(tmp_path / "sessions")
    manager.create("spec", "analyze")
    manager.advance_phase("implement")
    manager.complete()

    assert [one.head.state for one in manager.list()] == [SessionState.COMPLETED]
    assert os.listdir(tmp_path) == ["sessions"]
