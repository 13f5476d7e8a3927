"""What a phase wrote is there for the next one on another machine; the object store may be away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import psycopg
import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.workflows import Phase, Script, Workflow
from tests.support.fleet_drills import (
    CLAIMS,
    DOING,
    OPEN,
    Fleet,
    begin_session,
    count,
    require_done_once,
    running_fleet,
)
from tests.support.own_postgres import OwnPostgres
from tests.support.postgres_sessions import stored
from tests.support.promptness import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

_STEP: Final = """
import os, time
from pathlib import Path
assert sorted(os.listdir()) == [f"{number}.txt" for number in range(NUMBER)], os.listdir()
Path("NUMBER.txt").write_text("NUMBER")
time.sleep(0.5)
"""
WORKFLOW: Final = Workflow(
    name="travelling",
    workflow_type="fleet",
    token_budget=50,
    phases=[
        Phase(
            name=f"phase_{number}",
            gate=Script(code=_STEP.replace("NUMBER", str(number)), artifacts=[f"{number}.txt"]),
            tokens=10,
        )
        for number in range(5)
    ],
)
KILLS: Final = 8
SESSIONS: Final = 2
PATIENCE_S: Final = 300.0


def fleet_of_machines(url: str, place: Path, objects: Path) -> Fleet:
    """Return workers that share no folder but the object store's."""
    objects.mkdir()
    return Fleet(
        url,
        place / "fleet",
        3,
        globals_=("--objects", objects.as_uri()),
        bases={number: place / f"machine-{number}" / "sessions" for number in range(3)},
    )


def test_sessions_go_on_with_their_files_on_other_machines_when_workers_are_killed(
    own: OwnPostgres, tmp_path: Path
) -> None:
    fleet = fleet_of_machines(own.url, tmp_path, tmp_path / "objects")
    with (
        Database(own.url) as database,
        psycopg.connect(own.url, autocommit=True) as direct,
    ):
        store = PostgresStore(database, tmp_path / "submitter" / "sessions")
        ids = [begin_session(store, WORKFLOW) for _ in range(SESSIONS)]
        with running_fleet(fleet):
            for number in range(KILLS):
                claims = count(direct, CLAIMS)
                wait_until(
                    lambda: count(direct, CLAIMS) > claims or count(direct, OPEN) == 0,  # noqa: B023
                    patience_s=PATIENCE_S,
                )
                fleet.kill(fleet.worker(number % 3).pid, "a machine that ends")
            wait_until(lambda: count(direct, OPEN) == 0, patience_s=PATIENCE_S)
            wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
        for session_id in ids:
            require_done_once(store, session_id, WORKFLOW)
        machines = [machines_of(fleet, session_id) for session_id in ids]
        assert max(map(len, machines)) > 1, "no session has moved"
        print(
            f"{KILLS} kills, {count(direct, CLAIMS)} claims; sessions ran on "
            f"{[len(one) for one in machines]} machines"
        )


def machines_of(fleet: Fleet, session_id: str) -> set[str]:
    """Return the machines on which a session ran, by their workers' logs."""
    return {
        path.name
        for path in fleet.place.glob("worker-*.log")
        if any(
            session_id in line and '"fleet.job.started"' in line
            for line in path.read_text(errors="replace").splitlines()
        )
    }


def test_an_object_store_that_is_away_stops_runs_and_loses_nothing(
    own: OwnPostgres, tmp_path: Path
) -> None:
    objects = tmp_path / "objects"
    fleet = fleet_of_machines(own.url, tmp_path, objects)
    with (
        Database(own.url) as database,
        psycopg.connect(own.url, autocommit=True) as direct,
    ):
        store = PostgresStore(database, tmp_path / "submitter" / "sessions")
        with running_fleet(fleet):
            session_id = begin_session(store, WORKFLOW)
            wait_until(lambda: "1.txt" in json.dumps(stored(direct)), patience_s=PATIENCE_S)
            away = objects.rename(tmp_path / "away")
            wait_until(lambda: '"outcome": "unavailable"' in fleet.log(), patience_s=PATIENCE_S)
            away.rename(objects)
            wait_until(lambda: count(direct, OPEN) == 0, patience_s=PATIENCE_S)
            wait_until(lambda: count(direct, DOING) == 0, patience_s=PATIENCE_S)
        require_done_once(store, session_id, WORKFLOW)
        print(f"{count(direct, CLAIMS)} claims, {fleet.codes}")
