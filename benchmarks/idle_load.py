"""Measure what workers that have nothing to do ask of their database, and take of the processor.

    python -m benchmarks.idle_load [--seconds 30] [--workers 1,2,4]

A PostgreSQL of its own is started as in `benchmarks.scale_out`; it waits for the disk. The workers
are `agentforge fleet worker` with its defaults, as many as asked for, in turn. What the measuring
itself asks, two looks, is in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

import psutil
import psycopg
from attrs import frozen

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from tests.support.fleet import fleet_of
from tests.support.postgres import postgres_server

SETTLED_S: Final = 5.0
"""What a worker does at its start is over by then."""
_LOOK: Final = """
select xact_commit + xact_rollback, tup_updated, tup_inserted, tup_deleted,
    pg_current_wal_insert_lsn() - '0/0'::pg_lsn, numbackends
from pg_stat_database where datname = current_database()
"""


@frozen
class Seen:
    """What had been counted at a moment."""

    at: float
    counts: tuple[float, ...]
    connections: int
    worker_cpu: float
    server_cpu: float


def looked(connection: psycopg.Connection[tuple[float, ...]], workers: list[int]) -> Seen:
    """Look at the database's counts and the processors' time."""
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select pg_stat_clear_snapshot()")
    row = connection.execute(_LOOK).fetchone()
    assert row is not None
    server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    return Seen(
        at=time.monotonic(),
        counts=tuple(float(one) for one in row[:5]),
        connections=int(row[5]) - 1,
        worker_cpu=sum(_cpu(psutil.Process(one)) for one in workers),
        server_cpu=sum(_cpu(one) for one in (server, *server.children())),
    )


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def measure(url: str, count: int, seconds: float) -> None:
    """Run so many workers, and print what they ask each second."""
    with (
        Database(url) as database,
        tempfile.TemporaryDirectory() as place,
        fleet_of(database, Path(place)) as fleet,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        pids = []
        for _ in range(count):
            worker = fleet.worker(heartbeat_s=2.0)
            worker.wait_for("fleet.worker.started")
            pids.append(worker.pid)
        database.close()
        time.sleep(SETTLED_S)
        before = looked(connection, pids)
        time.sleep(seconds)
        after = looked(connection, pids)
    took = after.at - before.at
    rates = [(one - other) / took for one, other in zip(after.counts, before.counts, strict=True)]
    worker_cpu = (after.worker_cpu - before.worker_cpu) / took * 100
    server_cpu = (after.server_cpu - before.server_cpu) / took * 100
    print(
        f"| {count} | {rates[0]:.1f} | {rates[1]:.1f} | {rates[2]:.1f} | {rates[3]:.1f} | "
        f"{rates[4]:,.0f} | {after.connections} | {worker_cpu / count:.1f} % | {server_cpu:.1f} % |"
    )


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--workers", default="1,2,4")
    given = parser.parse_args()
    print(
        "| idle workers | transactions/s | rows updated/s | inserted/s | deleted/s | WAL bytes/s | "
        "connections | a worker's processor | the server's |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    with postgres_server(f"idle-{uuid.uuid4().hex}", durable=True) as server:
        for count in map(int, given.workers.split(",")):
            name = server.new_database()
            url = server.url_of(name)
            with Database(url) as database:
                migrate(database)
            measure(url, count, given.seconds)
            server.drop(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
