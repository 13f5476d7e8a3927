"""Measure how soon a waiter is awake after an answer was written.

    python -m benchmarks.questions [--quick] [--json] [--check] [--dir DIRECTORY]

Each trial: a process of its own waits for a question session; after a random pause another process
answers it. The time runs from the return of the `rename` that makes answers.json appear to the
return of the wait, both on the machine's monotonic clock. The candidates take turns in a random
order, so that whatever else the machine does hits all of them alike. The reference is a waiter that
nobody tells: it looks every 200 ms.

Then each candidate waits for nothing, and how often the kernel woke one of its threads is counted.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import structlog

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.questions import (
    Option,
    Question,
    QuestionsConfig,
    QuestionSessions,
    UserAnswer,
)
from agentforge_sessions.questions.waiting.directory_watcher import NoWatcher
from benchmarks.measure import Timed

TARGET_P50_MS = 10.0
TARGET_P99_MS = 40.0
TARGET_WAKES_PER_S = 6.0
"""One look every 200 ms, and room for what the interpreter itself does."""
WATCHED = "watched, blocking"
WATCHED_ASYNC = "watched, async"
POLLER = "200 ms poller"
PAUSE_S = (0.03, 0.25)
QUIET_S = 10.0

_QUESTION = Question(
    prompt="Which?", title="Which", options=(Option(label="this"), Option(label="that"))
)
_ANSWER = UserAnswer(question_index=0, selected_option="this")
_ROOM = QuestionsConfig(max_sessions=1_000_000)


class _Timing(OsFileSystem):
    """The real file system, that notes when answers.json appeared."""

    appeared = 0.0

    def rename(  # type: ignore[override]
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if target == "answers.json":
            self.appeared = time.monotonic()


def _wait(base: str, kind: str, pipe: Connection) -> None:
    """A waiter's process: waits for each session it is told of, and says when it was awake."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sessions = QuestionSessions(base, watcher=NoWatcher() if kind == POLLER else None)
    while (session_id := pipe.recv()) is not None:
        pipe.send("waiting")
        if kind == WATCHED_ASYNC:
            awake = anyio.run(_wait_async, sessions, session_id)
        else:
            sessions.wait_for_answers(session_id)
            awake = time.monotonic()
        pipe.send(awake)


async def _wait_async(sessions: QuestionSessions, session_id: str) -> float:
    await sessions.wait_for_answers_async(session_id)
    return time.monotonic()


def _trial(sessions: QuestionSessions, fs: _Timing, pipe: Connection, pause_s: float) -> float:
    session_id = sessions.create_session([_QUESTION])
    pipe.send(session_id)
    pipe.recv()
    time.sleep(pause_s)
    sessions.save_session_answers(session_id, [_ANSWER])
    awake = pipe.recv()
    return max(float(awake) - fs.appeared, 0.0)


def _wakes(pid: int) -> int:
    """Count how often any thread of a process went to sleep of its own will."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(OSError):  # the thread has ended
            for line in path.read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    return total


def _quiet(sessions: QuestionSessions, pipe: Connection, pid: int, seconds: float) -> float:
    """Return how often a second a waiter is awake while nothing happens."""
    session_id = sessions.create_session([_QUESTION])
    pipe.send(session_id)
    pipe.recv()
    time.sleep(1.0)  # what happens at the beginning of a wait
    before, began = _wakes(pid), time.monotonic()
    time.sleep(seconds)
    per_s = (_wakes(pid) - before) / (time.monotonic() - began)
    sessions.save_session_answers(session_id, [_ANSWER])
    pipe.recv()
    return per_s


def measure(
    base: Path, *, trials: int, quiet_s: float, say: Callable[[str], None]
) -> tuple[dict[str, Timed], dict[str, float]]:
    """Time each candidate in `trials` trials, and count its wakes while nothing happens."""
    quiet = {}
    fs = _Timing()
    sessions = QuestionSessions(base, config=_ROOM, fs=fs)
    sessions.prepare()
    context = multiprocessing.get_context("spawn")
    rng = random.Random(1)
    pipes: dict[str, Connection] = {}
    processes = []
    results = {name: Timed() for name in (WATCHED, WATCHED_ASYNC, POLLER)}
    try:
        for name in results:
            ours, theirs = context.Pipe()
            process = context.Process(target=_wait, args=(str(base), name, theirs), daemon=True)
            process.start()
            pipes[name] = ours
            processes.append(process)
        for name in results:  # warm up
            _trial(sessions, fs, pipes[name], PAUSE_S[1])
        for number in range(trials):
            names = list(results)
            rng.shuffle(names)
            for name in names:
                took = _trial(sessions, fs, pipes[name], rng.uniform(*PAUSE_S))
                results[name].samples.append(took)
            if number % 50 == 49:
                say(f"{number + 1} of {trials} trials")
        for name, process in zip(results, processes, strict=True):
            quiet[name] = _quiet(sessions, pipes[name], int(process.pid or 0), quiet_s)
    finally:
        for pipe in pipes.values():
            with suppress(OSError):
                pipe.send(None)
        for process in processes:
            process.join(5)
    return results, quiet


def _rows(results: dict[str, Timed], quiet: dict[str, float]) -> list[dict[str, Any]]:
    poller = results[POLLER]
    return [
        {
            "what": name,
            "trials": len(timed.samples),
            "p50_ms": round(timed.percentile(50), 2),
            "p99_ms": round(timed.percentile(99), 2),
            "max_ms": round(timed.percentile(100), 2),
            "p50_ratio": round(timed.percentile(50) / poller.percentile(50), 3),
            "p99_ratio": round(timed.percentile(99) / poller.percentile(99), 3),
            "wakes_per_s": round(quiet[name], 1),
            "met": None if name == POLLER else _is_met(timed, quiet[name]),
        }
        for name, timed in results.items()
    ]


def _is_met(timed: Timed, wakes_per_s: float) -> bool:
    return (
        timed.percentile(50) <= TARGET_P50_MS
        and timed.percentile(99) <= TARGET_P99_MS
        and wakes_per_s <= TARGET_WAKES_PER_S
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 trials instead of 200")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"), help="where to write")
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    given.dir.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="questions-", dir=given.dir))
    load = os.getloadavg()[0]
    try:
        results, quiet = measure(
            place / "questions",
            trials=40 if given.quick else 200,
            quiet_s=QUIET_S / 5 if given.quick else QUIET_S,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):
            given.dir.rmdir()
    rows = _rows(results, quiet)
    missed = any(row["met"] is False for row in rows)
    if given.json:
        print(json.dumps({"load_average": load, "rows": rows}, indent=1))
    else:
        print(f"answer written to waiter awake; load average {load:.2f}")
        print(
            "| | trials | p50 ms | p99 ms | max ms | p50 by poller | p99 by poller "
            "| wakes a second, quiet | |"
        )
        print("| --- | --: | --: | --: | --: | --: | --: | --: | --- |")
        for row in rows:
            verdict = {True: "met", False: "MISSED", None: "reference"}[row.pop("met")]
            print("| " + " | ".join(str(value) for value in row.values()) + f" | {verdict} |")
        print(
            f"targets: p50 at most {TARGET_P50_MS:g} ms, p99 at most {TARGET_P99_MS:g} ms, at most "
            f"{TARGET_WAKES_PER_S:g} wakes a second"
        )
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
