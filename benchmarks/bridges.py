"""What the bridges cost against the SQLite adapters that come with the same SDKs.

    python -m benchmarks.bridges            # about three minutes
    python -m benchmarks.bridges --quick    # fewer rounds, one minute
    python -m benchmarks.bridges --json     # the same, for a program
    python -m benchmarks.bridges --check    # exit code 1 if a target is missed

All candidates are durable in the same way: each write is one sync of a file before it returns
(SQLite in WAL mode with `synchronous=FULL`, which is asked of it and shown). They run in the same
rounds, on the disk that is measured, on threads and conversations of 100 and 10,000 entries.

"put" is one more checkpoint whose `messages` changed, "get" the last one, both by whoever has the
thread open; "get, opened anew" has nothing in memory, as a new process has not. "add" is one more
item, "last 20" and "all" read items, each by a session object that has the conversation open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import structlog
from agents import SQLiteSession
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.integrations.bridges.langgraph import AgentForgeSaver
from agentforge_sessions.integrations.bridges.openai_agents import AgentForgeSession
from benchmarks.measure import Candidate, Row, compare, row, table
from benchmarks.sessions import facts, place_in

SIZES: Final = (100, 10_000)
_TEXT: Final = "What a model or a person says in a turn, of a usual length. " * 8
_STEADY: Final = {f"setting_{number}": _TEXT for number in range(8)}
_WRITE_TARGET: Final = 2.0
_READ_TARGET: Final = 1.0
_LISTED: Final = 10


class _WithoutSync(OsFileSystem):
    """What is there before anything is timed need not survive a power failure."""

    @staticmethod
    def fsync(fd: int) -> None:
        """Do nothing."""


class _Steps:
    """The checkpoints of one thread, one after the other, as a graph makes them."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._parent: dict[str, Any] = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self._number = 0

    def put(self) -> None:
        self._number += 1
        values = {**_STEADY, "messages": [_TEXT, str(self._number)]}
        old = dict.fromkeys(_STEADY, f"{1:032}.0")
        new = {"messages": f"{self._number:032}.0"}
        checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=self._number)),
            "channel_values": values,
            "channel_versions": {**old, **new},
        }
        changed = {**old, **new} if self._number == 1 else new
        metadata = {"source": "loop", "step": self._number, "parents": {}}
        self._parent = self._saver.put(self._parent, checkpoint, metadata, changed)


def measure_checkpoints(place: Path, size: int, *, rounds: int) -> Iterator[Row]:
    """Time our checkpointer against LangGraph's for SQLite."""
    connection = sqlite3.connect(place / "graph.sqlite", check_same_thread=False)
    theirs = SqliteSaver(connection)
    theirs.setup()
    base = place / "sessions"
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    connection.execute("pragma synchronous=off")
    ours_before = AgentForgeSaver(SessionStore(base, fs=_WithoutSync()))
    steps, their_steps = _Steps(ours_before), _Steps(theirs)
    for _ in range(size):
        steps.put()
        their_steps.put()
    connection.execute("pragma synchronous=full")
    mode = _mode(connection)

    ours = AgentForgeSaver(base)
    steps._saver = ours
    timed = compare(
        {
            "ours put": Candidate(steps.put),
            "theirs put": Candidate(their_steps.put),
        },
        rounds=rounds,
        budget_s=20.0,
    )
    reference = "SqliteSaver"
    yield row(
        "put",
        size,
        "AgentForgeSaver",
        timed["ours put"],
        reference=(reference, timed["theirs put"]),
        target=_WRITE_TARGET,
        note=mode,
    )

    def anew() -> object:
        return AgentForgeSaver(base).get_tuple(config)

    def theirs_anew() -> object:
        with SqliteSaver.from_conn_string(str(place / "graph.sqlite")) as saver:
            return saver.get_tuple(config)

    timed = compare(
        {
            "ours": Candidate(lambda: ours.get_tuple(config)),
            "theirs": Candidate(lambda: theirs.get_tuple(config)),
            "ours anew": Candidate(anew),
            "theirs anew": Candidate(theirs_anew),
        },
        rounds=rounds,
        budget_s=20.0,
    )
    target = _READ_TARGET if size >= 10_000 else _WRITE_TARGET
    yield row(
        "get",
        size,
        "AgentForgeSaver",
        timed["ours"],
        reference=(reference, timed["theirs"]),
        target=target,
    )
    yield row(
        "get, opened anew",
        size,
        "AgentForgeSaver",
        timed["ours anew"],
        reference=(reference, timed["theirs anew"]),
    )

    def listed_anew() -> object:
        return list(AgentForgeSaver(base).list(config, limit=_LISTED))

    def theirs_listed_anew() -> object:
        with SqliteSaver.from_conn_string(str(place / "graph.sqlite")) as saver:
            return list(saver.list(config, limit=_LISTED))

    if listed_anew() == [] or len(list(ours.list(config, limit=_LISTED))) != _LISTED:
        raise SystemExit("the listing is not complete")
    timed = compare(
        {
            "ours": Candidate(lambda: list(ours.list(config, limit=_LISTED))),
            "theirs": Candidate(lambda: list(theirs.list(config, limit=_LISTED))),
            "ours anew": Candidate(listed_anew),
            "theirs anew": Candidate(theirs_listed_anew),
        },
        rounds=rounds,
        budget_s=20.0,
    )
    for what, kind in ((f"last {_LISTED}", ""), (f"last {_LISTED}, opened anew", " anew")):
        yield row(
            what,
            size,
            "AgentForgeSaver",
            timed[f"ours{kind}"],
            reference=(reference, timed[f"theirs{kind}"]),
            target=_WRITE_TARGET,
        )
    on_disk = sum(one.stat().st_size for one in base.rglob("*") if one.is_file())
    connection.execute("pragma wal_checkpoint(truncate)")
    theirs_on_disk = (place / "graph.sqlite").stat().st_size
    sizes = f"{on_disk / 1e6:.1f} MB, in SQLite {theirs_on_disk / 1e6:.1f} MB"
    print(f"{size:,} checkpoints take {sizes}", file=sys.stderr)
    connection.close()


def measure_conversations(place: Path, size: int, *, rounds: int) -> Iterator[Row]:
    """Time our session against the SDK's for SQLite."""
    loop = asyncio.new_event_loop()
    item: Any = {"role": "user", "content": _TEXT}
    base, file = place / "sessions", place / "talk.sqlite"
    before = AgentForgeSession("t", SessionStore(base, fs=_WithoutSync()))
    ours, theirs = AgentForgeSession("t", base), SQLiteSession("t", file)
    for session in (before, theirs):
        loop.run_until_complete(session.add_items([item] * size))

    def calls(call: Callable[[Any], Any]) -> dict[str, Candidate]:
        return {
            "ours": Candidate(lambda: loop.run_until_complete(call(ours))),
            "theirs": Candidate(lambda: loop.run_until_complete(call(theirs))),
        }

    mode = _mode(theirs._get_connection())
    read = _READ_TARGET if size >= 10_000 else _WRITE_TARGET
    for group, call, target in (
        ("add", lambda session: session.add_items([item]), _WRITE_TARGET),
        ("last 20", lambda session: session.get_items(20), read),
        ("all", lambda session: session.get_items(), _WRITE_TARGET),
    ):
        timed = compare(calls(call), rounds=rounds, budget_s=20.0)
        yield row(
            group,
            size,
            "AgentForgeSession",
            timed["ours"],
            reference=("SQLiteSession", timed["theirs"]),
            target=target,
            note=mode if group == "add" else "",
        )

    def opened(make: Callable[[], Any]) -> Candidate:
        return Candidate(lambda: loop.run_until_complete(make().get_items(20)))

    kept: list[SQLiteSession] = []

    def another() -> SQLiteSession:
        kept.append(SQLiteSession("t", file))
        return kept[-1]

    timed = compare(
        {
            "ours": opened(lambda: AgentForgeSession("t", base)),
            "theirs": opened(another),
        },
        rounds=rounds,
        budget_s=20.0,
    )
    yield row(
        "last 20, opened anew",
        size,
        "AgentForgeSession",
        timed["ours"],
        reference=("SQLiteSession", timed["theirs"]),
    )
    for session in (theirs, *kept):
        session.close()
    loop.close()


def _mode(connection: sqlite3.Connection) -> str:
    level = connection.execute("pragma synchronous").fetchone()[0]
    journal = connection.execute("pragma journal_mode").fetchone()[0]
    return f"SQLite: {journal}, synchronous {['off', 'normal', 'full', 'extra'][level]}"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bridges", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="where to write, on the disk to be measured (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began = time.monotonic()
    rows: list[Row] = []
    with place_in(given.dir) as place:
        machine = facts(place)
        for measure in (measure_checkpoints, measure_conversations):
            for size in SIZES:
                part = place / f"{measure.__name__}-{size}"
                part.mkdir()
                rows += measure(part, size, rounds=30 if given.quick else 200)
    machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in rows if one.met is False]
    if given.json:
        print(json.dumps({"machine": machine, "rows": [one.as_fields() for one in rows]}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(rows))
        judged = sum(1 for one in rows if one.met is not None)
        print(f"{judged - len(missed)} of {judged} targets met")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
