"""Steps of one long program, recorded by one candidate in its own environment.

    python _steps_driver.py KIND PLACE [DATABASE]

Each line of standard input asks for steps: `{"steps": 20}`, or for steps that need not survive a
power failure, which make a long history before anything is timed: `{"fill": 1000}`. The answer has
the seconds that each step took. The program never ends: all are steps of one workflow. A step does
nothing but return a small value.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypedDict

_NAME: Final = "steps"


class Reply(TypedDict):
    """What each step returns."""

    number: int
    text: str


def work(number: int) -> Reply:
    return {"number": number, "text": "what a step found out"}


def requests(durable: Callable[[bool], object]) -> Iterator[int]:
    """Yield how many steps are wanted; `durable` sets whether they wait for the disk."""
    for line in sys.stdin:
        asked = json.loads(line)
        durable("fill" not in asked)
        yield asked.get("fill") or asked["steps"]


def say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def run_steps(step: Callable[[int], object], durable: Callable[[bool], object]) -> None:
    """Run the steps that are asked for, one after the other, and time each."""
    done = 0
    for count in requests(durable):
        times = []
        for _ in range(count):
            began = time.perf_counter()
            step(done)
            times.append(time.perf_counter() - began)
            done += 1
        say(times=times[-1000:])


def with_dbos(place: Path, database: str | None, journal: str) -> None:
    """Steps of DBOS, in SQLite with the journal that is given, or in PostgreSQL."""
    import sqlite3

    import sqlalchemy
    from dbos import DBOS, SetWorkflowID

    file = place / "dbos.sqlite"
    if database is None:
        with sqlite3.connect(file) as connection:
            connection.execute(f"pragma journal_mode={journal}")
    address = database or f"sqlite:///{file}"
    made = DBOS(
        config={
            "name": _NAME,
            "system_database_url": address,
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    step = DBOS.step()(work)

    def pragma(connection: Any, *_: object) -> None:
        connection.execute("pragma synchronous=off")

    def durable(wanted: bool) -> None:
        if database is not None:
            return
        engine = made._sys_db.engine
        listening = sqlalchemy.event.contains(engine, "connect", pragma)
        if listening == wanted:
            (sqlalchemy.event.remove if wanted else sqlalchemy.event.listen)(
                engine, "connect", pragma
            )
            engine.dispose()

    @DBOS.workflow()
    def program() -> None:
        run_steps(step, durable)

    DBOS.launch()
    note = "PostgreSQL"
    if database is None:
        with made._sys_db.engine.connect() as connection:
            found = [
                connection.exec_driver_sql(f"pragma {name}").scalar()
                for name in ("journal_mode", "synchronous")
            ]
        note = "journal {}, synchronous {}".format(*found)
    say(note=note)
    with SetWorkflowID(_NAME):
        program()


def with_langgraph(place: Path) -> None:
    """Steps of a graph with one node, each with a checkpoint before the next begins."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph

    with SqliteSaver.from_conn_string(str(place / "graph.sqlite")) as saver:
        saver.setup()

        def durable(wanted: bool) -> None:
            saver.conn.execute(f"pragma synchronous={'full' if wanted else 'off'}")

        asked = requests(durable)
        left, began, times = 0, 0.0, []

        def node(state: Reply) -> Reply:
            nonlocal left, began, times
            if began:
                times.append(time.perf_counter() - began)
            if left == 0:
                if times:
                    say(times=times[-1000:])
                left, times = next(asked, -1), []
            left -= 1
            began = time.perf_counter()
            return work(state["number"] + 1)

        graph = StateGraph(Reply)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_conditional_edges("node", lambda _: "__end__" if left < 0 else "node")
        found = [
            saver.conn.execute(f"pragma {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
        say(note="journal {}, synchronous {}".format(*found))
        graph.compile(checkpointer=saver).invoke(
            {"number": 0, "text": ""},
            {"configurable": {"thread_id": _NAME}, "recursion_limit": 1 << 30},
            durability="sync",
        )


def switched_store(place: Path, database: str | None) -> tuple[Any, Callable[[bool], object]]:
    """Return a store, and what switches the syncs of one in files off and on."""
    from agentforge_sessions.base.files import OsFileSystem
    from agentforge_sessions.fleet.stores import open_sessions
    from agentforge_sessions.harness import SessionStore

    class Switched(OsFileSystem):
        """The system's calls, whose syncs can be left out."""

        synced = True

        @staticmethod
        def fsync(fd: int) -> None:
            if Switched.synced:
                OsFileSystem.fsync(fd)

    def durable(wanted: bool) -> None:
        Switched.synced = wanted

    if database is not None:
        return open_sessions(store=database), durable
    return SessionStore(place / "sessions", fs=Switched()), durable


def with_core(place: Path, database: str | None) -> None:
    """Entries of a log of steps, without the public face."""
    from agentforge_sessions.base.clock import utc_now
    from agentforge_sessions.harness.steps.program_sessions import (
        ProgramKey,
        begin_or_go_on,
        checkpoint,
        led,
    )

    store, durable = switched_store(place, database)
    session = begin_or_go_on(store, ProgramKey(_NAME, _NAME), budget=1_000_000)
    with led(store, session.session_id) as log:
        say(note="PostgreSQL" if database else "one fsync a step")
        written = time.monotonic()

        def step(number: int) -> None:
            nonlocal written
            started = utc_now()
            body = json.dumps(work(number)).encode()
            log.record(
                f"work#{number + 1}", number, codec="json", body=body, started=started, took_us=1
            )
            if time.monotonic() - written > 1:
                checkpoint(log)
                written = time.monotonic()

        run_steps(step, durable)


def with_ours(place: Path, database: str | None) -> None:
    """Steps of a session, in files or in PostgreSQL."""
    from agentforge_sessions import session

    store, durable = switched_store(place, database)
    with session(_NAME, key=_NAME, store=store) as s:
        say(note="PostgreSQL" if database else "one fsync a step")
        run_steps(lambda number: s.step("work", work, number), durable)


def load(place: Path) -> None:
    """Say how much processor time it takes to take up a session with all its steps."""
    from agentforge_sessions.harness.steps.program_sessions import program_session_id
    from agentforge_sessions.harness.steps.step_log import StepLog

    store, _ = switched_store(place, None)
    session_id = program_session_id(_NAME)
    store.load(session_id)
    began = time.process_time()
    log = StepLog(store, session_id)
    took = time.process_time() - began
    say(processor_s=took, steps=len(log.history))


def main() -> None:
    kind, place = sys.argv[1], Path(sys.argv[2])
    database = sys.argv[3] if len(sys.argv) > 3 else None
    if kind == "langgraph":
        with_langgraph(place)
    elif kind == "ours":
        with_ours(place, database)
    elif kind == "core":
        with_core(place, database)
    elif kind == "load":
        load(place)
    else:
        with_dbos(place, database, "wal" if kind == "dbos-wal" else "delete")


if __name__ == "__main__":
    main()
