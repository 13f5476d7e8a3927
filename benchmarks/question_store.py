"""Measure how soon a waiter has an answer that was given in PostgreSQL.

    python -m benchmarks.question_store --store postgresql://… [--quick] [--json] [--check]

Each trial: a process of its own waits for a question session; after a random pause another process
answers it. The time runs from the beginning of the answer's COMMIT to the return of the wait, which
has read the answer by then; both on the machine's monotonic clock. The reference is psycopg's plain
`notifies()` in a thread that has nothing else to do, told in a durable transaction that holds the
telling alone: no look at the answer, nobody who shares the connection. The candidates take turns in
a random order.

The store's tables must be there (`agentforge fleet store migrate`); what is asked is deleted at the
end.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import anyio
import psycopg
import structlog

from agentforge_sessions.fleet.postgres.database import Connection as DatabaseConnection
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreError
from agentforge_sessions.fleet.postgres.questions import PostgresQuestions
from agentforge_sessions.questions import (
    Option,
    Question,
    QuestionsConfig,
    QuestionSessions,
    UserAnswer,
)
from benchmarks.measure import Timed

TARGET_P50_MS = 10.0
TARGET_P99_MS = 40.0
BLOCKING = "a wait, blocking"
ASYNC = "a wait, async"
PLAIN = "plain notifies()"
PAUSE_S = (0.02, 0.1)
_CHANNEL = "agentforge_benchmark"

_QUESTION = Question(
    prompt="Which?", title="Which", options=(Option(label="this"), Option(label="that"))
)
_ANSWER = UserAnswer(question_index=0, selected_option="this")
_ROOM = QuestionsConfig(max_sessions=1_000_000)


class _Timing(Database):
    """A database that notes when a transaction began to be committed."""

    committing = 0.0

    @contextmanager
    def transaction(self) -> Iterator[DatabaseConnection]:
        with self.connection() as connection, connection.transaction():
            yield connection
            self.committing = time.monotonic()


def _wait(store: str, kind: str, pipe: Connection) -> None:
    """A waiter's process: waits for each session it is told of, and says when it had the answer."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if kind == PLAIN:
        _wait_plainly(store, pipe)
        return
    with Database(store) as database:
        questions = PostgresQuestions(database, look_s=1000.0)
        sessions = QuestionSessions(store=questions)
        while (session_id := pipe.recv()) is not None:
            pipe.send("waiting")
            if kind == ASYNC:
                awake = anyio.run(_wait_async, sessions, session_id)
            else:
                sessions.wait_for_answers(session_id)
                awake = time.monotonic()
            pipe.send(awake)
        questions.close()


async def _wait_async(sessions: QuestionSessions, session_id: str) -> float:
    await sessions.wait_for_answers_async(session_id)
    return time.monotonic()


def _wait_plainly(store: str, pipe: Connection) -> None:
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(f"listen {_CHANNEL}".encode())
        while pipe.recv() is not None:
            pipe.send("waiting")
            for _ in connection.notifies(stop_after=1):
                awake = time.monotonic()
            pipe.send(awake)


def _trial(
    sessions: QuestionSessions,
    database: _Timing,
    kind: str,
    pipe: Connection,
    pause_s: float,
    asked: list[str],
) -> float:
    session_id = "plain"
    if kind != PLAIN:
        session_id = sessions.create_session([_QUESTION])
        asked.append(session_id)
    pipe.send(session_id)
    pipe.recv()
    time.sleep(pause_s)
    if kind == PLAIN:
        with database.transaction() as connection:
            connection.execute(  # with a number, the commit is written to the disk, as any other
                "select pg_notify(%s, %s), pg_current_xact_id()", (_CHANNEL, session_id)
            )
    else:
        sessions.save_session_answers(session_id, [_ANSWER])
    return max(float(pipe.recv()) - database.committing, 0.0)


def measure(store: str, *, trials: int, say: Callable[[str], None]) -> dict[str, Timed]:
    """Time each candidate in `trials` trials."""
    context = multiprocessing.get_context("spawn")
    rng = random.Random(1)
    pipes: dict[str, Connection] = {}
    processes = []
    asked: list[str] = []
    results = {name: Timed() for name in (BLOCKING, ASYNC, PLAIN)}
    database = _Timing(store)
    sessions = QuestionSessions(store=PostgresQuestions(database), config=_ROOM)
    try:
        for name in results:
            ours, theirs = context.Pipe()
            process = context.Process(target=_wait, args=(store, name, theirs), daemon=True)
            process.start()
            pipes[name] = ours
            processes.append(process)
        for name in results:  # warm up
            _trial(sessions, database, name, pipes[name], PAUSE_S[1], asked)
        for number in range(trials):
            names = list(results)
            rng.shuffle(names)
            for name in names:
                pause_s = rng.uniform(*PAUSE_S)
                took = _trial(sessions, database, name, pipes[name], pause_s, asked)
                results[name].samples.append(took)
            if number % 50 == 49:
                say(f"{number + 1} of {trials} trials")
    finally:
        for pipe in pipes.values():
            with suppress(OSError):
                pipe.send(None)
        for process in processes:
            process.join(5)
        with suppress(StoreError), database.connection() as connection:
            connection.execute("delete from agentforge.questions where id = any(%s)", (asked,))
        database.close()
    return results


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.question_store", description=__doc__
    )
    parser.add_argument("--store", required=True, help="a database of its own, postgresql://…")
    parser.add_argument("--quick", action="store_true", help="40 trials instead of 400")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    load = os.getloadavg()[0]
    results = measure(
        given.store,
        trials=40 if given.quick else 400,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    rows: list[dict[str, Any]] = [
        {
            "what": name,
            "trials": len(timed.samples),
            "p50_ms": round(timed.percentile(50), 2),
            "p99_ms": round(timed.percentile(99), 2),
            "max_ms": round(timed.percentile(100), 2),
            "p50_ratio": round(timed.percentile(50) / results[PLAIN].percentile(50), 2),
            "met": None
            if name == PLAIN
            else timed.percentile(50) <= TARGET_P50_MS and timed.percentile(99) <= TARGET_P99_MS,
        }
        for name, timed in results.items()
    ]
    missed = any(row["met"] is False for row in rows)
    if given.json:
        print(json.dumps({"load_average": load, "rows": rows}, indent=1))
    else:
        print(f"answer committed to waiter has it; load average {load:.2f}")
        print("| | trials | p50 ms | p99 ms | max ms | p50 by plain | |")
        print("| --- | --: | --: | --: | --: | --: | --- |")
        for row in rows:
            verdict = {True: "met", False: "MISSED", None: "reference"}[row.pop("met")]
            print("| " + " | ".join(str(value) for value in row.values()) + f" | {verdict} |")
        print(f"targets: p50 at most {TARGET_P50_MS:g} ms, p99 at most {TARGET_P99_MS:g} ms")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
