"""A fleet whose processes are killed a thousand times finishes every session, each phase once."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import define, field

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from tests.support.fleet_drills import (
    CLAIMS,
    DOING,
    OPEN,
    Fleet,
    Kill,
    begin_session,
    count,
    napping_workflow,
    require_done_once,
    running_fleet,
)
from tests.support.own_postgres import OwnPostgres
from tests.support.postgres_proxy import Moment, PostgresProxy, Statement
from tests.support.postgres_sessions import advisory_locks, stored
from tests.support.promptness import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

KILLS: Final = int(os.environ.get("AGENTFORGE_KILLS", "1000"))
SESSIONS: Final = max(12, KILLS * 3 // 10)
WORKERS: Final = 6
AT_ONCE: Final = 8
WORKFLOW: Final = napping_workflow(phases=6, nap_s=1.2)
PATIENCE_S: Final = 600.0


@define
class Killer:
    """Kills processes of a fleet, at instants and at statements."""

    fleet: Fleet
    proxy: PostgresProxy
    rng: random.Random
    kills: list[Kill] = field(factory=list)
    statements: Counter[tuple[str, Moment]] = field(factory=Counter)

    def at_an_instant(self) -> None:
        """Kill a worker, or a child of one, now."""
        time.sleep(self.rng.uniform(0, 0.5))
        workers = self.fleet.pids()
        pids = (
            [*workers] if self.rng.random() < 0.4 else [p for one in workers.values() for p in one]
        )
        if pids:
            self._kill(self.rng.choice(pids), "at an instant")

    def at_a_statement(self) -> None:
        """Kill the process that sends one of the next statements, somewhere around it."""
        before = len(self.kills)
        left = self.rng.randrange(1, 40)
        moment = self.rng.choice(list(Moment))
        of_workers = self.rng.random() < 0.4
        workers = frozenset(self.fleet.pids())

        def lose(statement: Statement, now: Moment) -> bool:
            nonlocal left
            if now is not moment or (statement.pid in workers) is not of_workers:
                return False
            left -= 1
            if left != 0:
                return False
            if not self._kill(statement.pid, f"{now.value}: {statement.text[:60]}"):
                left = 1
                return False
            self.statements[" ".join(statement.text.split())[:60], now] += 1
            return True

        with self.proxy.losing(lose):
            until = time.monotonic() + 10
            while len(self.kills) == before and time.monotonic() < until:
                time.sleep(0.01)

    def _kill(self, pid: int, where: str) -> bool:
        kill = self.fleet.kill(pid, where)
        if kill is not None:
            self.kills.append(kill)
        return kill is not None


def test_a_fleet_that_is_killed_a_thousand_times_finishes_every_session_and_each_phase_once(
    own: OwnPostgres, short: Path, tmp_path: Path
) -> None:
    seed = int(os.environ.get("AGENTFORGE_SEED", "20261123"))
    door = short / "door"
    door.mkdir()
    began = time.monotonic()
    with (
        PostgresProxy(own.url, door) as proxy,
        psycopg.connect(own.url, autocommit=True) as direct,
        Database(own.url) as database,
    ):
        fleet = Fleet(proxy.url, tmp_path / "fleet", WORKERS)
        killer = Killer(fleet, proxy, random.Random(seed))
        store = PostgresStore(database, fleet.place / "sessions")
        ids: list[str] = []

        def feed() -> None:
            """Keep a few sessions open, as they come in over a day."""
            while count(direct, OPEN) < AT_ONCE and (
                len(ids) < SESSIONS or len(killer.kills) < KILLS
            ):
                ids.append(begin_session(store, WORKFLOW))

        with running_fleet(fleet):
            wait_until(lambda: [feed(), count(direct, CLAIMS)][-1] >= WORKERS)
            while len(killer.kills) < KILLS:
                claims = count(direct, CLAIMS)
                killer.rng.choice([killer.at_an_instant, killer.at_a_statement])()
                feed()
                wait_until(
                    lambda claims=claims: count(direct, CLAIMS) > claims,  # type: ignore[misc]
                    patience_s=PATIENCE_S,
                )
                if len(killer.kills) % 50 == 0:
                    left = count(direct, OPEN)
                    print(
                        f"{len(killer.kills)} kills, {len(ids) - left} of {len(ids)} sessions "
                        f"ended, {time.monotonic() - began:.0f} s",
                        flush=True,
                    )
            last = time.monotonic()
            wait_until(
                lambda: [feed(), count(direct, OPEN)][-1] == 0 and len(ids) >= SESSIONS,
                patience_s=PATIENCE_S,
            )
            ended = time.monotonic()
            wait_until(lambda: count(direct, DOING) == 0)
            wait_until(lambda: advisory_locks(direct) == [])
        assert len(stored(direct)) == len(ids)
        for session_id in ids:
            require_done_once(store, session_id, WORKFLOW)
        gaps = interruptions(direct, killer.kills, proxy.processes)
        executed = count(direct, CLAIMS)
        print(
            f"seed {seed}: {len(killer.kills)} kills ({of_workers(killer.kills)} of workers with "
            f"their children, the rest of children; {sum(killer.statements.values())} at "
            f"{len(killer.statements)} kinds of statement) over {len(ids)} sessions of "
            f"{len(WORKFLOW.phases)} phases and {WORKERS} workers in {ended - began:.0f} s, "
            f"{ended - last:.1f} s after the last kill; {executed} claims; {len(gaps)} sessions "
            f"interrupted, gone on with after {quantile(gaps, 0.5):.2f} s (half), "
            f"{quantile(gaps, 0.99):.2f} s (99 %), {quantile(gaps, 1):.2f} s (longest); "
            f"0 lost, 0 completed twice, each phase once"
        )
        for line in sorted(f"{text} ({moment.value})" for text, moment in killer.statements):
            print(f"  {line}")


def of_workers(kills: list[Kill]) -> int:
    return sum(one.worker for one in kills)


def interruptions(
    direct: psycopg.Connection[Any], kills: list[Kill], processes: dict[int, int]
) -> list[float]:
    """Return, for each session that a killed process had, how long until another took it."""
    claims = direct.execute(
        "select session_id, claims, backend, extract(epoch from at)::float8 from public.claims "
        "order by at"
    ).fetchall()
    ends = dict(
        direct.execute("select session_id, extract(epoch from at)::float8 from public.ends")
    )
    gaps = []
    for kill in kills:
        before = {row[0]: row for row in claims if row[3] <= kill.at}
        for session_id, number, backend, _at in before.values():
            if processes.get(backend) not in kill.pids or ends[session_id] <= kill.at:
                continue
            after = [row[3] for row in claims if row[:2] == (session_id, number + 1)]
            gaps += [at - kill.at for at in after if at > kill.at]
    return sorted(gaps)


def quantile(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0.0
