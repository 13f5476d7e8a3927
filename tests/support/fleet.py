"""Workers of a fleet as processes of their own, and the sessions that they are given."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import psutil

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import SubmittingStore
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.harness.submission import Submission
from agentforge_sessions.wiring.fleet import SubmittingRunner
from agentforge_sessions.workflows import AgentWork, Phase, Script, Workflow

from .promptness import wait_until

QUICK = Script(code="print('done')")
WAITING = Script(
    code="import os, time\n"
    "open('begun', 'w').close()\n"
    "while not os.path.exists('go'):\n"
    "    time.sleep(0.01)\n"
)
"""A script that says in its workspace that it has begun, and waits there for a file `go`."""


def workflow(*scripts: Script, name: str = "drill") -> Workflow:
    """Return a workflow of these scripts, a phase each, named a, b, c, …."""
    phases = [Phase(name="abcdefgh"[number], gate=one) for number, one in enumerate(scripts)]
    return Workflow(name=name, workflow_type="drill", phases=phases)


@contextmanager
def capturing() -> Iterator[io.StringIO]:
    """Take what is written to standard output."""
    with redirect_stdout(io.StringIO()) as written:
        yield written


class Fleet:
    """A store with its workers.

    Args:
        database: The store.
        place: Where the sessions' directories are, and the workers' logs.
    """

    def __init__(self, database: Database, place: Path) -> None:
        self.database = database
        self.base = place / "sessions"
        self.place = place
        self.workers: list[WorkerProcess] = []

    def submit(self, work: Workflow | AgentWork, *, queue: str = "default") -> str:
        """Begin a session that the fleet runs."""
        store = SubmittingStore(self.database, self.base, Submission(queue=queue))
        return SubmittingRunner(SessionManager(store)).begin(work)

    def worker(self, *options: str, heartbeat_s: float = 0.3) -> WorkerProcess:
        """Start a worker; it has taken no job yet when this returns."""
        log = self.place / f"worker-{len(self.workers)}.log"
        started = WorkerProcess(self.database.url, self.base, log, heartbeat_s, options)
        self.workers.append(started)
        return started

    def state(self, session_id: str) -> SessionState:
        """Return a session's state."""
        row = self.database.one("select state from agentforge.sessions where id = %s", [session_id])
        assert row is not None
        return SessionState(row[0])

    def wait_for(self, session_id: str, state: SessionState) -> None:
        """Wait until a session is in a state."""
        try:
            wait_until(lambda: self.state(session_id) is state)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said()}") from error

    def file(self, session_id: str, name: str) -> Path:
        """Return a file of a session's workspace."""
        return self.base / session_id / "workspace" / name

    def wait_until_begun(self, session_id: str) -> None:
        """Wait until a session's waiting script has begun."""
        try:
            wait_until(self.file(session_id, "begun").exists)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said()}") from error

    def go(self, session_id: str) -> None:
        """Have a session's waiting script end."""
        self.file(session_id, "go").touch()

    def jobs(self, session_id: str) -> list[str]:
        """Return the states of a session's jobs, oldest first."""
        with self.database.connection() as connection:
            rows = connection.execute(
                "select status::text from agentforge.procrastinate_jobs where lock = %s "
                "order by id",
                [session_id],
            ).fetchall()
        return [row[0] for row in rows]

    def command(self, *words: str) -> dict[str, Any]:
        """Run a command line on this store, and return the JSON document that it writes."""
        found = json.loads(self.shown(*words, "--json"))
        assert isinstance(found, dict)
        return found

    def shown(self, *words: str) -> str:
        """Run a command line on this store, and return what it writes."""
        with capturing() as written:
            run([*("--store", self.database.url, "--base", str(self.base)), *words])
        return written.getvalue()

    def said(self) -> str:
        """Return what all workers logged."""
        return "\n".join(one.said() for one in self.workers)

    def close(self) -> None:
        """End all workers, and what they started."""
        for one in self.workers:
            one.end()


class WorkerProcess:
    """A worker.

    Args:
        url: The store.
        base: Where the sessions' directories are.
        log: Where its log goes, a JSON object a line.
        heartbeat_s: How often it says that it is alive; its limit is five times as long.
        options: Further options.
    """

    def __init__(
        self, url: str, base: Path, log: Path, heartbeat_s: float, options: tuple[str, ...]
    ) -> None:
        self.log = log
        environment = {
            **{name: value for name, value in os.environ.items() if "AGENTFORGE" not in name},
            "AGENTFORGE_STORE": url,
            "AGENTFORGE_BASE": str(base),
        }
        command = [
            *(
                sys.executable,
                "-m",
                "agentforge_sessions.entrypoints.cli",
                "fleet",
                "worker",
                "--json",
            ),
            *("--heartbeat", str(heartbeat_s), *options),
        ]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment,
                cwd=log.parent,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def said(self) -> str:
        """Return its log as it stands."""
        return self.log.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name that it logged, oldest first."""
        found = []
        for line in self.said().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") == name:
                found.append(event)
        return found

    def wait_for(self, name: str) -> dict[str, Any]:
        """Wait until it logs an event, and return the first of it."""
        try:
            wait_until(lambda: self.events(name) or self.process.poll() is not None)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said()}") from error
        found = self.events(name)
        assert found, self.said()
        return found[0]

    def children(self) -> list[psutil.Process]:
        """Return its processes that run sessions."""
        try:
            return psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it as a lost machine would: its session processes, too, and nothing is said."""
        for one in [*self.children(), psutil.Process(self.pid)]:
            one.kill()
        self.process.wait()

    def end(self) -> None:
        """End it and what it started, however it stands."""
        started = self.children()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for one in started:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(started, timeout=30)


@contextmanager
def fleet_of(database: Database, place: Path) -> Iterator[Fleet]:
    """Give a fleet without workers; those that it is given are ended."""
    fleet = Fleet(database, place)
    try:
        yield fleet
    finally:
        fleet.close()
