"""A fleet whose database is killed, or whose sessions crash or freeze what runs them, goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionState
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
from tests.support.own_postgres import OwnPostgres
from tests.support.postgres_proxy import PostgresProxy
from tests.support.postgres_sessions import advisory_locks, stored
from tests.support.promptness import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

WORKFLOW: Final = napping_workflow(phases=5, nap_s=0.5)
PATIENCE_S: Final = 300.0


@contextmanager
def connected(own: OwnPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(own.url, autocommit=True) as direct:
        yield direct


def test_a_database_that_is_killed_in_the_middle_of_runs_costs_no_session(
    own: OwnPostgres, tmp_path: Path
) -> None:
    fleet = Fleet(own.url, tmp_path / "fleet", 3, options=("--concurrency", "2"))
    with Database(own.url) as database:
        store = PostgresStore(database, fleet.place / "sessions")
        ids = [begin_session(store, WORKFLOW) for _ in range(18)]
        with running_fleet(fleet):
            for times in (1, 2, 3):
                with connected(own) as direct:
                    claims = count(direct, CLAIMS)
                    wait_until(lambda: count(direct, CLAIMS) >= claims + 3, patience_s=PATIENCE_S)  # noqa: B023
                own.kill()
                time.sleep(0.5 * times)  # it is away for a while
                own.start()
            began = time.monotonic()
            with connected(own) as direct:
                wait_until(lambda: count(direct, OPEN) == 0, patience_s=PATIENCE_S)
                took = time.monotonic() - began
                wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
                wait_until(lambda: advisory_locks(direct) == [], patience_s=PATIENCE_S)
        with connected(own) as direct:
            assert len(stored(direct)) == len(ids)
            claims = count(direct, CLAIMS)
        for session_id in ids:
            require_done_once(store, session_id, WORKFLOW)
    print(
        f"3 kills of the database over {len(ids)} sessions and 3 workers: {claims} claims, all "
        f"done {took:.1f} s after the last; {fleet.restarts} workers ended {fleet.codes}"
    )


def test_connections_that_are_all_ended_in_the_middle_of_runs_cost_no_session(
    own: OwnPostgres, tmp_path: Path
) -> None:
    fleet = Fleet(own.url, tmp_path / "fleet", 3)
    with Database(own.url) as database, connected(own) as direct:
        store = PostgresStore(database, fleet.place / "sessions")
        ids = [begin_session(store, WORKFLOW) for _ in range(6)]
        with running_fleet(fleet):
            for _ in range(3):
                claims = count(direct, CLAIMS)
                wait_until(lambda: count(direct, CLAIMS) > claims, patience_s=PATIENCE_S)  # noqa: B023
                direct.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where pid <> pg_backend_pid() and backend_type = 'client backend'"
                )
            wait_until(lambda: count(direct, OPEN) == 0, patience_s=PATIENCE_S)
            wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
        for session_id in ids:
            require_done_once(store, session_id, WORKFLOW)
        print(f"3 times all connections ended: {count(direct, CLAIMS)} claims, {fleet.codes}")


def test_a_session_that_crashes_what_runs_it_is_paused_in_the_end_and_stops_nobody(
    own: OwnPostgres, short: Path, tmp_path: Path
) -> None:
    door = short / "door"
    door.mkdir()
    with (
        PostgresProxy(own.url, door) as proxy,
        Database(own.url) as database,
        connected(own) as direct,
    ):
        fleet = Fleet(proxy.url, tmp_path / "fleet", 2)
        store = PostgresStore(database, fleet.place / "sessions")
        poisoned = begin_session(store, WORKFLOW)
        over = threading.Event()
        crashes: list[int] = []

        def poison() -> None:
            """Kill each process that takes the session."""
            with connected(own) as looking:
                while not over.wait(0.02):
                    rows = looking.execute(
                        "select backend, claims from public.claims where session_id = %s "
                        "order by claims desc limit 1",
                        (poisoned,),
                    ).fetchall()
                    for backend, claims in rows:
                        if claims not in crashes and fleet.kill(proxy.processes[backend], "poison"):
                            crashes.append(claims)

        poisoning = threading.Thread(target=poison)
        poisoning.start()
        try:
            with running_fleet(fleet):
                wait_until(lambda: len(crashes) >= 2, patience_s=PATIENCE_S)
                others = [begin_session(store, WORKFLOW) for _ in range(4)]
                wait_until(
                    lambda: {_state(store, one) for one in others} == {SessionState.COMPLETED},
                    patience_s=PATIENCE_S,
                )
                crashed = len(crashes)
                wait_until(lambda: _state(store, poisoned) is SessionState.PAUSED, patience_s=900)
                wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
                assert len(crashes) <= 10
        finally:
            over.set()
            poisoning.join()
        for session_id in others:
            require_done_once(store, session_id, WORKFLOW)
        session = store.load(poisoned)
        assert session is not None
        assert "in a row in this phase" in str(session.history[-1].details)
        assert fleet.restarts == 0
        print(f"paused after {len(crashes)} crashes; 4 others were done after {crashed} of them")


def _state(store: PostgresStore, session_id: str) -> SessionState | None:
    session = store.load(session_id)
    return None if session is None else session.state


def test_a_child_that_is_frozen_holds_up_its_own_session_alone_until_it_is_cancelled(
    own: OwnPostgres, tmp_path: Path
) -> None:
    fleet = Fleet(own.url, tmp_path / "fleet", 1, options=("--concurrency", "2"))
    with Database(own.url) as database, connected(own) as direct:
        store = PostgresStore(database, fleet.place / "sessions")
        with running_fleet(fleet):
            frozen = begin_session(store, WORKFLOW)
            wait_until(lambda: count(direct, CLAIMS) == 1, patience_s=PATIENCE_S)
            ((worker, (child,)),) = fleet.pids().items()
            psutil.Process(child).suspend()
            other = begin_session(store, WORKFLOW)
            wait_until(
                lambda: _state(store, other) is SessionState.COMPLETED, patience_s=PATIENCE_S
            )
            assert _state(store, frozen) is SessionState.ACTIVE
            direct.execute("select agentforge.withdraw(%s)", (frozen,))
            wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
            assert not psutil.pid_exists(child)
            assert fleet.pids().keys() == {worker}
            wait_until(lambda: advisory_locks(direct) == [], patience_s=PATIENCE_S)
            direct.execute("select agentforge.submit(%s, 'default', 0, null)", (frozen,))
            wait_until(lambda: count(direct, OPEN) == 0, patience_s=PATIENCE_S)
        for session_id in (frozen, other):
            require_done_once(store, session_id, WORKFLOW)
