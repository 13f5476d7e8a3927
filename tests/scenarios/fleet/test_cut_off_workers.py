"""A worker that was away for longer than its heartbeat is refused, and overwrites nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
from attrs import frozen

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from tests.scenarios.fleet.conftest import prepared
from tests.support.cut_off_hosts import cut_off_host
from tests.support.fleet_drills import (
    CLAIMS,
    DOING,
    OPEN,
    Fleet,
    begin_session,
    count,
    napping_workflow,
    require_done_once,
    running_fleet,
)
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.postgres import PostgresServer
from tests.support.postgres_proxy import Moment, PostgresProxy, Statement
from tests.support.postgres_sessions import advisory_locks, stored
from tests.support.promptness import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

WORKFLOW: Final = napping_workflow(phases=4, nap_s=1.0)
AWAY, OTHER = "away", "other"
PATIENCE_S: Final = 300.0


@frozen
class Two:
    """A worker that goes away and comes back, and one that takes over."""

    server: OwnPostgres
    away: Fleet
    other: Fleet
    direct: psycopg.Connection[Any]
    store: PostgresStore

    def drill(self, leave: Callable[[], object], come_back: Callable[[], object]) -> None:
        """Have the first worker leave in the middle of a session, and come back after it ended."""
        with running_fleet(self.away):
            session_id = begin_session(self.store, WORKFLOW)
            wait_until(lambda: count(self.direct, CLAIMS) == 1, patience_s=PATIENCE_S)
            # In a phase, and not the first.
            wait_until(lambda: self._revision(session_id) > 3, patience_s=PATIENCE_S)
            leave()
            left = time.monotonic()
            with running_fleet(self.other):
                wait_until(lambda: count(self.direct, CLAIMS) > 1, patience_s=PATIENCE_S)
                taken_s = time.monotonic() - left
                wait_until(lambda: count(self.direct, OPEN) == 0, patience_s=PATIENCE_S)
                wait_until(lambda: count(self.direct, DOING) == 0, patience_s=PATIENCE_S)
            whole = stored(self.direct)
            come_back()
            wait_until(lambda: self.told() is not None, patience_s=PATIENCE_S)
            assert stored(self.direct) == whole
            # It goes on with others.
            another = begin_session(self.store, WORKFLOW)
            wait_until(lambda: count(self.direct, OPEN) == 0, patience_s=PATIENCE_S)
        wait_until(lambda: advisory_locks(self.direct) == [], patience_s=PATIENCE_S)
        for one in (session_id, another):
            require_done_once(self.store, one, WORKFLOW)
        assert stored(self.direct)[0] == whole[0]
        print(
            f"told: {self.told()}; taken over {taken_s:.2f} s after it left, "
            f"{count(self.direct, CLAIMS)} claims; the worker ended {self.away.restarts} times"
        )

    def told(self) -> str | None:
        """Return how the worker says that its result was thrown away.

        Its process was refused; or the worker itself, which could not say that it is alive, had
        stopped it before.
        """
        log = self.away.log()
        for event in ("fleet.session.taken_over", "fleet.child.killed", "fleet.worker.restarting"):
            if event in log:
                return event
        return None

    def _revision(self, session_id: str) -> int:
        return count(
            self.direct, "select revision from agentforge.sessions where id = %s", session_id
        )

    def processes(self) -> list[psutil.Process]:
        """Return the worker that goes away, and its children."""
        return [
            psutil.Process(pid) for one in self.away.pids().items() for pid in (one[0], *one[1])
        ]


@contextmanager
def two(own: OwnPostgres, place: Path, url: str) -> Iterator[Two]:
    """Prepare two workers, of which one reaches the server by another address."""
    objects = place / "objects"
    objects.mkdir()
    shared = ("--objects", objects.as_uri())
    with (
        Database(own.url) as database,
        psycopg.connect(own.url, autocommit=True) as direct,
    ):
        yield Two(
            own,
            Fleet(url, place / AWAY, 1, globals_=shared),
            Fleet(own.url, place / OTHER, 1, globals_=shared),
            direct,
            PostgresStore(database, place / AWAY / "sessions"),
        )


def test_a_worker_whose_network_is_cut_for_longer_than_its_heartbeat_is_refused(
    server: PostgresServer, short: Path, tmp_path: Path
) -> None:
    del server
    with cut_off_host() as host, ExitStack() as stack:
        options = (f"listen_addresses={host.address}", "max_connections=100")
        own = stack.enter_context(own_postgres(short / "own", options, network=host.network))
        prepared(own)
        far = f"postgresql://postgres@{host.address}/postgres"
        drill = stack.enter_context(two(own, tmp_path, far))
        drill.away.prefixes[0] = tuple(host.command(()))
        drill.drill(host.pull, host.plug_in)


def test_a_worker_that_hears_nothing_of_the_server_is_refused(
    own: OwnPostgres, short: Path, tmp_path: Path
) -> None:
    door = short / "door"
    door.mkdir()
    with PostgresProxy(own.url, door) as proxy, two(own, tmp_path, proxy.url) as drill:
        drill.drill(lambda: proxy.silence(drill.away.pids().keys()), lambda: proxy.silence(set()))


def test_a_worker_that_is_frozen_with_its_children_is_refused(
    own: OwnPostgres, short: Path, tmp_path: Path
) -> None:
    door = short / "door"
    door.mkdir()
    with PostgresProxy(own.url, door) as proxy, two(own, tmp_path, proxy.url) as drill:
        frozen: list[psutil.Process] = []
        saved = threading.Event()

        def leave() -> None:
            frozen.extend(drill.processes())
            for one in frozen:
                one.suspend()

        def note(statement: Statement, moment: Moment) -> bool:
            children = {one.pid for one in frozen[1:]}
            is_save = "update agentforge.sessions" in statement.text
            if statement.pid in children and moment is Moment.DONE and is_save:
                saved.set()
            return False

        def come_back() -> None:
            """Come back, the children first: what they save is refused before anything else."""
            with proxy.losing(note):
                for one in frozen[1:]:
                    one.resume()
                wait_until(saved.is_set, patience_s=PATIENCE_S)
            frozen[0].resume()

        drill.drill(leave, come_back)
