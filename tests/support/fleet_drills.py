"""A fleet of real workers, restarted as a supervisor would, and what is asked of its store."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, LiteralString

import psutil
import psycopg
from attrs import define, field, frozen

from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner

HEARTBEAT_S: Final = 1.0
"""Not less: workers of a machine that is held up for longer than the limit take each other for
dead, and what they start anew holds it up still more."""
LIMIT_S: Final = 5 * HEARTBEAT_S
"""After so long without a heartbeat a worker's sessions are taken over."""
_WATCH_CLAIMS: Final = b"""
create table public.claims (
    session_id text, claims bigint, backend integer default pg_backend_pid(),
    at timestamptz default clock_timestamp());
create function public.note_claim() returns trigger language plpgsql as $$
begin
    insert into public.claims (session_id, claims) values (new.id, new.claims);
    return null;
end $$;
create trigger note_claim after update of claims on agentforge.sessions
    for each row execute function public.note_claim();
create table public.ends (session_id text, at timestamptz default clock_timestamp());
create function public.note_end() returns trigger language plpgsql as $$
begin
    insert into public.ends (session_id) values (new.id);
    return null;
end $$;
create trigger note_end after update of state on agentforge.sessions
    for each row when (new.state in ('completed', 'aborted'))
    execute function public.note_end();
"""


@frozen
class Kill:
    """A process of the fleet that was killed.

    Attributes:
        pids: It, and its children where it was a worker: they end with it.
        at: When, in seconds since the epoch.
        where: In words.
        worker: Whether it was a worker.
    """

    pids: frozenset[int]
    at: float
    where: str
    worker: bool


@define
class Fleet:
    """Workers of one store on this machine.

    Args:
        url: The store, as they reach it.
        place: A folder for their sessions and logs.
        count: How many.
        options: More words for each.
        globals_: More words before the command's name.
        prefixes: Words before the command of some, by their number.
        urls: How some reach the store otherwise.
        bases: Where some work instead of in the folder that all share.
    """

    url: str
    place: Path
    count: int
    options: Sequence[str] = ()
    globals_: Sequence[str] = ()
    prefixes: dict[int, Sequence[str]] = field(factory=dict)
    urls: dict[int, str] = field(factory=dict)
    bases: dict[int, Path] = field(factory=dict)
    restarts: int = 0
    codes: list[int] = field(factory=list)
    _workers: list[subprocess.Popen[bytes] | None] = field(factory=list)
    _stop: threading.Event = field(factory=threading.Event)
    _mutex: threading.Lock = field(factory=threading.Lock)
    _watching: threading.Thread | None = None

    def start(self) -> None:
        """Start all, and from now on each anew that has ended."""
        self.place.mkdir(exist_ok=True)
        self._workers = [None] * self.count
        for number in range(self.count):
            self._start(number)
        self._watching = threading.Thread(target=self._watch, name="supervisor")
        self._watching.start()

    def _start(self, number: int) -> None:
        words = [
            *self.prefixes.get(number, ()),
            *(sys.executable, "-P", "-m", "agentforge_sessions.entrypoints.cli"),
            *("--store", self.urls.get(number, self.url)),
            *("--base", str(self.bases.get(number, self.place / "sessions"))),
            *self.globals_,
            *("fleet", "worker", "--json", "--heartbeat", str(HEARTBEAT_S), *self.options),
        ]
        with (self.place / f"worker-{number}.log").open("ab") as log:
            self._workers[number] = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.place,
            )

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            with self._mutex:
                for number, worker in enumerate(self._workers):
                    if worker is not None and worker.poll() is not None:
                        self.codes.append(worker.returncode)
                        self.restarts += 1
                        self._start(number)

    def worker(self, number: int) -> subprocess.Popen[bytes]:
        """Return one of them."""
        worker = self._workers[number]
        assert worker is not None
        return worker

    @staticmethod
    def children(worker: int) -> list[int]:
        """Return the processes that a worker has."""
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(worker).children()]
        return []

    def pids(self) -> dict[int, list[int]]:
        """Return the workers that live, each with its children."""
        with self._mutex:
            alive = [one.pid for one in self._workers if one is not None and one.poll() is None]
        return {pid: self.children(pid) for pid in alive}

    def kill(self, pid: int, where: str) -> Kill | None:
        """Kill a worker or a child of one; None if it is neither (any more)."""
        with self._mutex:  # it is not waited for meanwhile: its number stays its own
            workers = {one.pid for one in self._workers if one is not None and one.poll() is None}
            children = self.children(pid)
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if pid in workers or process.ppid() in workers:
                    at = time.time()
                    process.kill()
                    return Kill(frozenset({pid, *children}), at, where, pid in workers)
        return None

    def end(self) -> None:
        """Stop all; what does not end is killed."""
        self._stop.set()
        if self._watching is not None:
            self._watching.join()
        workers = [one for one in self._workers if one is not None]
        children = [child for one in workers for child in self.children(one.pid)]
        for one in workers:
            with suppress(ProcessLookupError):
                one.send_signal(signal.SIGCONT)  # what a test froze
                one.terminate()
        for one in workers:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        for pid in children:
            with suppress(psutil.Error):
                psutil.Process(pid).kill()

    def log(self) -> str:
        """Return what they have logged."""
        return "".join(
            path.read_text(errors="replace") for path in sorted(self.place.glob("worker-*.log"))
        )


@contextmanager
def running_fleet(fleet: Fleet) -> Iterator[Fleet]:
    """Run a fleet for the block."""
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.end()


def watch_claims(connection: psycopg.Connection[Any]) -> None:
    """Have the database note when a session is taken, and when one ends."""
    connection.execute(_WATCH_CLAIMS)


def begin_session(store: PostgresStore, workflow: Workflow) -> str:
    """Begin a session and submit it to the fleet, as another program would; return its id."""
    session_id = WorkflowRunner(SessionManager(store)).begin(workflow)
    store.database.one("select agentforge.submit(%s, 'default', 0, null)", (session_id,))
    return session_id


def napping_workflow(phases: int, nap_s: float) -> Workflow:
    """Return a workflow of scripts that take their time and none of the processor's."""
    return Workflow(
        name="fleet",
        workflow_type="fleet",
        token_budget=10 * phases,
        phases=[
            Phase(
                name=f"phase_{number}",
                gate=Script(code=f"import time\ntime.sleep({nap_s})\nprint({number})"),
                tokens=10,
            )
            for number in range(phases)
        ],
    )


def count(connection: psycopg.Connection[Any], question: LiteralString, *values: object) -> int:
    """Return the one number that a statement asks for."""
    found = connection.execute(question, values).fetchone()
    assert found is not None
    return int(found[0])


OPEN: Final = "select count(*) from agentforge.sessions where state in ('active', 'paused')"
ACTIVE: Final = "select count(*) from agentforge.sessions where state = 'active'"
CLAIMS: Final = "select count(*) from public.claims"
DOING: Final = (
    "select count(*) from agentforge.procrastinate_jobs "
    "where status = 'doing' and task_name = 'agentforge.run_session'"
)


def require_done_once(store: PostgresStore, session_id: str, workflow: Workflow) -> None:
    """Assert that each phase of a session was recorded once, in order, and all was paid once."""
    session = store.load(session_id)
    assert session is not None, f"{session_id} is lost"
    assert session.state is SessionState.COMPLETED, [one.action for one in session.history]
    names = [one.name for one in workflow.phases]
    passed = [one.phase for one in session.history if one.action == "phase_succeeded"]
    assert passed == names, session_id
    assert sum(one.action == "session_completed" for one in session.history) == 1
    assert session.token_budget.tokens_used == sum(one.tokens for one in workflow.phases)
