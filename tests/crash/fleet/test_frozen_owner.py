"""A worker that was frozen while another one took its session over is refused when it is back.

Run as a module, this file is such a worker.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psycopg
import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import (
    PhaseResult,
    SessionContext,
    SessionFenced,
    SessionManager,
    SessionState,
)
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE
from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner
from tests.support.cut_off_hosts import cut_off_host
from tests.support.own_postgres import own_postgres
from tests.support.postgres import PostgresServer
from tests.support.postgres_sessions import advisory_locks, stored
from tests.support.promptness import wait_until
from tests.support.soak import SOAKING

ROOT: Final = Path(__file__).resolve().parents[3]
PHASES: Final = ("red", "green", "refactor")
WORKFLOW: Final = Workflow(
    name="frozen",
    workflow_type="tdflow",
    token_budget=100,
    phases=[
        Phase(name=name, gate=Script(code=name, artifacts=[f"{name}.txt"]), tokens=10)
        for name in PHASES
    ],
)


# ----------------------------------------------------------------------------------- the worker


class SlowExecutor:
    """Runs a phase by writing a file; in one phase it says so, and waits to be told to go on."""

    def __init__(self, store: PostgresStore, name: str, slow: str | None) -> None:
        self._store = store
        self._name = name
        self._slow = slow

    def execute(self, code: str, *, session_id: str, **_given: object) -> PhaseResult:
        if code == self._slow:
            print(session_id, flush=True)
            sys.stdin.readline()
        workspace = self._store.workspace_path(session_id)
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / f"{code}.txt").write_text(self._name)
        return PhaseResult(
            success=True, exit_code=0, stdout=self._name, files_created=[f"{code}.txt"]
        )


def work(url: str, base: str, name: str, slow: str | None, session_id: str | None) -> None:
    """Run the workflow, or go on with its session; say how it ended."""
    with Database(url) as database:
        store = PostgresStore(database, base)
        store.job_id = os.getpid()
        manager = SessionManager(store, executor=SlowExecutor(store, name, slow))
        runner = WorkflowRunner(manager, lock_timeout_s=60.0)
        try:
            if session_id is None:
                runner.start(WORKFLOW)
            else:
                runner.resume(session_id)
        except SessionFenced as refused:
            print(json.dumps({"refused": refused.user_message}))
        else:
            print(json.dumps({"refused": None}))


# -------------------------------------------------------------------------------------- the test


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(
    processes: ExitStack,
    url: str,
    base: Path,
    name: str,
    *,
    slow: str = "",
    session: str = "",
    where: Callable[[Sequence[str]], Sequence[str]] = list,
) -> subprocess.Popen[str]:
    """Start a worker, which does not outlive the test."""
    process = subprocess.Popen(
        where(
            [
                *(sys.executable, "-W", "error", "-m", "tests.crash.fleet.test_frozen_owner"),
                *(url, str(base), name, slow, session),
            ]
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    processes.callback(process.communicate)
    processes.callback(process.kill)
    return process


def say(process: subprocess.Popen[str]) -> str:
    """Tell a worker to go on, and return the last that it says."""
    said, _ = process.communicate("go on\n")
    return said.splitlines()[-1]


@pytest.mark.parametrize("phase", PHASES if SOAKING else PHASES[1:2])
def test_a_worker_that_was_frozen_in_a_phase_is_refused_when_another_one_has_taken_over(
    database: Database, tmp_path: Path, processes: ExitStack, phase: str
) -> None:
    first = start(processes, database.url, tmp_path / "first", "first", slow=phase)
    assert first.stdout is not None
    session_id = first.stdout.readline().strip()
    first.send_signal(signal.SIGSTOP)
    with psycopg.connect(database.url, autocommit=True) as direct:
        ended = direct.execute("select agentforge.end_holder(%s, %s)", (session_id, first.pid))
        assert ended.fetchone() == (1,)
        second = start(processes, database.url, tmp_path / "second", "second", session=session_id)
        assert json.loads(say(second)) == {"refused": None}
        whole = stored(direct)
        first.send_signal(signal.SIGCONT)
        require_refused(say(first), session_id)
        assert stored(direct) == whole
        assert advisory_locks(direct) == []
    require_done_once(PostgresStore(database, tmp_path / "third"), session_id)


def require_refused(said: str, session_id: str) -> None:
    told = json.loads(said)["refused"]
    assert session_id in told
    assert "taken over by another worker" in told


def require_done_once(store: PostgresStore, session_id: str) -> None:
    session = store.load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED
    assert [one.phase for one in session.history if one.action == "phase_succeeded"] == [*PHASES]
    assert session.token_budget.tokens_used == 30


@pytest.mark.skipif(not SOAKING, reason="a campaign: `make soak` runs it")
@pytest.mark.parametrize("when", ["in the phase", "at the save"])
def test_a_worker_whose_network_was_cut_is_refused_when_another_one_has_taken_over(
    server: PostgresServer, tmp_path: Path, processes: ExitStack, when: str
) -> None:
    del server
    with cut_off_host() as host, tempfile.TemporaryDirectory() as short:
        Path(short).chmod(0o755)
        options = (f"listen_addresses={host.address}", "autovacuum=off")
        with (
            own_postgres(Path(short) / "own", options, network=host.network) as own,
            Database(own.url) as database,
            psycopg.connect(own.url, autocommit=True) as direct,
        ):
            migrate(database)
            far = f"postgresql://postgres@{host.address}/postgres"
            first = start(
                *(processes, far, tmp_path / "first", "first"), slow="green", where=host.command
            )
            assert first.stdout is not None
            assert first.stdin is not None
            session_id = first.stdout.readline().strip()
            host.pull()
            if when == "at the save":
                first.stdin.write("go on\n")
                first.stdin.flush()
            ended = direct.execute(
                "select agentforge.end_holder(%s, %s)", (session_id, first.pid)
            ).fetchone()
            assert ended == (1,)
            second = start(processes, own.url, tmp_path / "second", "second", session=session_id)
            assert json.loads(say(second)) == {"refused": None}
            whole = stored(direct)
            host.plug_in()
            require_refused(say(first), session_id)
            assert stored(direct) == whole
            require_done_once(PostgresStore(database, tmp_path / "third"), session_id)


def test_a_session_whose_creator_died_before_it_made_its_directory_is_run(
    database: Database, tmp_path: Path
) -> None:
    store = PostgresStore(database, tmp_path / "sessions")
    runner = WorkflowRunner(SessionManager(store, executor=SlowExecutor(store, "first", None)))
    session_id = runner.begin(WORKFLOW)
    shutil.rmtree(store.session_directory(session_id))
    runner.resume(session_id)
    session = store.load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED


def test_a_step_that_is_kept_while_the_session_is_taken_over_is_seen_by_the_new_worker(
    database: Database, tmp_path: Path
) -> None:
    session = SessionContext.create("tdflow", "red")
    late, new = (PostgresStore(database, tmp_path / name) for name in ("late", "new"))
    late.save(session, attachments={WORKFLOW_FILE: b"steps"})
    lost = late.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=0).acquire()
    seen: list[bytes | None] = []

    def take_over() -> None:
        lock = new.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=60.0).acquire()
        seen.append(new.read_step(session.session_id, "0001.json"))
        lock.release()

    keeping = threading.Thread(
        target=lambda: late.keep_step(session.session_id, "0001.json", b"late")
    )
    taking = threading.Thread(target=take_over)
    with psycopg.connect(database.url) as other, psycopg.connect(database.url) as direct:
        direct.autocommit = True

        def waiting() -> int:
            found = direct.execute(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and wait_event_type = 'Lock'"
            ).fetchone()
            assert found is not None
            return int(found[0])

        # What holds the step up after the worker was found to have the session.
        other.execute(
            "insert into agentforge.session_attachments values (%s, 'steps/0001.json', 'other')",
            (session.session_id,),
        )
        keeping.start()
        wait_until(lambda: waiting() == 1)
        direct.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' "
            "and database = (select oid from pg_database where datname = current_database())"
        )
        taking.start()
        wait_until(lambda: seen or waiting() == 2)
        other.rollback()
        keeping.join()
        taking.join()
    lost.release()
    assert seen == [late.read_step(session.session_id, "0001.json")]


if __name__ == "__main__":
    url, base, name, slow, session = sys.argv[1:]
    work(url, base, name, slow or None, session or None)
