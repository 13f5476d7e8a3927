"""Steps that survive: what the same job costs in other programs, and what a step costs.

    python -m benchmarks.steps                 # everything, some minutes
    python -m benchmarks.steps --quick         # fewer rounds, no session of 100,000 steps
    python -m benchmarks.steps --only job      # of job, files, postgres, sizes, load
    python -m benchmarks.steps --peers ~/.cache/step-peers      # keep what is installed
    python -m benchmarks.steps --json          # the same, for a program
    python -m benchmarks.steps --check         # exit code 1 if a target is missed

benchmarks/README.md says what the rows are.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from benchmarks._sandbox_peers import ROOT, Peer, Unavailable, install
from benchmarks.measure import Row, Timed, row, table
from benchmarks.sessions import facts, place_in
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.promptness import wait_until

PROGRAMS: Final = Path(__file__).with_name("step_peers")
NAMES: Final = {
    "with_agentforge": "ours",
    "with_dbos": "DBOS",
    "with_langgraph": "LangGraph",
    "with_burr": "Burr",
}
GROUPS: Final = ("job", "files", "postgres", "sizes", "load")
SHORT, LONG, LARGE = 10, 1_000, 100_000
BATCH: Final = 10
MOST_LINES: Final = 10
STEP_TARGET: Final = 1.0
SIZE_TARGET: Final = 1.1
LOAD_TARGET_S: Final = 0.3
_PATIENCE_S: Final = 60.0
_FILL_AT_ONCE: Final = 10_000


# --------------------------------------------------------------------------------------- the job


class Job(NamedTuple):
    """What became of the job in one program.

    Attributes:
        name: The program's.
        lines: Lines of the program, without blank ones, comments and docstrings.
        own_lines: The same without imports.
        killed: Calls paid when the process was killed in the second phase.
        resumed: Calls paid after the next start.
        third: Calls paid after the third.
        refused: Calls paid where each is dearer, so that the budget doesn't allow the third.
        beside: Calls paid by a second process while the first is in its second phase.
        why: Why it wasn't run, or "".
    """

    name: str
    lines: int
    own_lines: int
    killed: int = 0
    resumed: int = 0
    third: int = 0
    refused: int = 0
    beside: int = 0
    why: str = ""


def lines_of(program: Path) -> tuple[int, int]:
    """Count a program's lines of code: all of them, and those without imports."""
    text = program.read_text(encoding="utf-8")
    tree = ast.parse(text)
    left_out: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(tree):
        lines = range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", 0) or 0) + 1)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(lines)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out |= set(lines)
    code = {
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#") and number not in left_out
    }
    return len(code), len(code - imports)


class JobRun:
    """Starts one program of the job in a folder of its own.

    Args:
        python: Of its environment.
        program: The file.
        place: The folder; made here.
    """

    def __init__(self, python: Path | str, program: Path, place: Path) -> None:
        place.mkdir(parents=True)
        self._words = [str(python), str(program), "rivers"]
        self._place = place

    @property
    def paid(self) -> int:
        """How many calls were paid until now."""
        file = self._place / "paid.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start it."""
        with (self._place / "said.txt").open("a") as said:
            return subprocess.Popen(
                self._words,
                cwd=self._place,
                env={**_environment(self._place), **variables},
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def finish(self, **variables: str) -> str:
        """Run it to its end, or for a while; return the last line that it printed."""
        process = self.start(**variables)
        try:
            printed, _ = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
        return (printed.strip().splitlines() or [""])[-1]

    def start_until_second_phase(self) -> subprocess.Popen[str]:
        """Start it, and return when it has paid its second call and waits for the reply."""
        process = self.start(HANG_IN="draft")
        wait_until(lambda: self.paid >= 2 or process.poll() is not None)
        if process.poll() is not None:
            raise Unavailable((self._place / "said.txt").read_text().strip().splitlines()[-1][:200])
        return process


def _environment(home: Path) -> dict[str, str]:
    """Return the variables of a program that knows nothing of the person who measures."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}


def run_job(name: str, program: Path, python: Path | str, place: Path) -> Job:
    """Run the job in one program: kill it in its second phase, start it two times more.

    Raises:
        Unavailable: The program doesn't run here.
    """
    run = JobRun(python, program, place / "killed")
    process = run.start_until_second_phase()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    counts = [run.paid]
    for _ in range(2):
        printed = run.finish()
        if printed != "review(draft(outline(rivers)))":
            raise Unavailable(f"its result is {printed!r}")
        counts.append(run.paid)

    dear = JobRun(python, program, place / "dear")
    for _ in range(2):
        dear.finish(TOKENS="9000")

    beside = JobRun(python, program, place / "beside")
    first = beside.start_until_second_phase()
    try:
        beside.finish()
        paid_beside = beside.paid - 2
    finally:
        first.kill()
        first.communicate()
    return Job(name, *lines_of(program), *counts, dear.paid, paid_beside)


def run_jobs(place: Path, pythons: Mapping[str, Path | str | Unavailable]) -> Iterator[Job]:
    """Run the job in all programs, one after the other."""
    for stem, name in NAMES.items():
        program = PROGRAMS / f"{stem}.py"
        python = pythons["ours" if name == "ours" else "peers"]
        try:
            if isinstance(python, Unavailable):
                raise python
            yield run_job(name, program, python, place / stem)
        except Unavailable as error:
            yield Job(name, *lines_of(program), why=str(error))


def job_table(jobs: Sequence[Job]) -> str:
    """Write the jobs as a Markdown table."""
    lines = [
        "| | lines | without imports | paid at the kill | after a restart | after a third start "
        "| dear calls, two starts | a second process beside it |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for job in jobs:
        counts = (
            ["not measured: " + job.why, "", "", "", ""]
            if job.why
            else [
                str(one)
                for one in (job.killed, job.resumed, job.third, job.refused, f"+{job.beside}")
            ]
        )
        lines.append(
            "| " + " | ".join([job.name, str(job.lines), str(job.own_lines), *counts]) + " |"
        )
    return "\n".join(lines)


def job_met(job: Job) -> bool:
    """Return whether ours is as short as it must be, and pays nothing twice that was recorded."""
    return (
        not job.why
        and job.own_lines <= MOST_LINES
        and (job.killed, job.resumed, job.third, job.refused, job.beside) == (2, 4, 4, 2, 0)
    )


# ------------------------------------------------------------------------------- what a step costs


class StepProcess:
    """A candidate's process, in which one program goes on; asked for some steps at a time.

    Args:
        kind: The driver's name for it.
        python: Of its environment.
        place: A folder for it; made here.
        database: Its PostgreSQL, or None.
    """

    def __init__(
        self, kind: str, python: Path | str, place: Path, database: str | None = None
    ) -> None:
        place.mkdir(parents=True)
        self._said = place / "said.txt"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [str(python), str(PROGRAMS.with_name("_steps_driver.py")), kind, str(place)]
                + ([database] if database else []),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=place,
                env=_environment(place),
            )
        self.note = str(self._answer()["note"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def fill(self, count: int) -> None:
        """Run steps that need not survive a power failure."""
        while count > 0:
            self._ask(fill=min(count, _FILL_AT_ONCE))
            count -= _FILL_AT_ONCE

    def steps(self, count: int) -> list[float]:
        """Run steps; return the seconds that each took."""
        times: list[float] = self._ask(steps=count)["times"]
        return times

    def _ask(self, **asked: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # a peer may print something of its own
                answer: dict[str, Any] = json.loads(line)
                return answer
        said = self._said.read_text().strip().splitlines()
        raise Unavailable((said or ["it ended"])[-1][:200])


class Started(NamedTuple):
    """A candidate that runs, with the number of steps that it has behind it at first."""

    label: str
    size: int
    process: StepProcess


def in_turn(candidates: Sequence[Started], *, rounds: int) -> dict[tuple[str, int], Timed]:
    """Have all candidates run some steps in each round, in a random order."""
    order = random.Random(1)
    timed = {(one.label, one.size): Timed() for one in candidates}
    for one in candidates:
        one.process.steps(BATCH)  # the first ones warm up
    for _ in range(rounds):
        for one in order.sample(candidates, len(candidates)):
            timed[one.label, one.size].samples += one.process.steps(BATCH)
    return timed


def measure_files(place: Path, pythons: Mapping[str, Any], *, rounds: int) -> Iterator[Row]:
    """Time a step of ours in files against DBOS's and LangGraph's in SQLite, with one disk."""
    kinds = {"ours": "ours", "DBOS": "dbos", "DBOS, WAL": "dbos-wal", "LangGraph": "langgraph"}
    yield from _compared(place, kinds, pythons, "files", rounds=rounds)


def measure_postgres(place: Path, pythons: Mapping[str, Any], *, rounds: int) -> Iterator[Row]:
    """Time a step of ours in PostgreSQL against DBOS's, in the same server."""
    with postgres_server(f"steps{os.getpid()}", durable=True) as server:
        kinds = {"ours": "ours", "DBOS": "dbos"}
        yield from _compared(place, kinds, pythons, "PostgreSQL", rounds=rounds, server=server)


def _compared(
    place: Path,
    kinds: Mapping[str, str],
    pythons: Mapping[str, Any],
    group: str,
    *,
    rounds: int,
    server: PostgresServer | None = None,
) -> Iterator[Row]:
    with ExitStack() as running:
        started = []
        for size in (SHORT, LONG):
            for label, kind in kinds.items():
                python = pythons["ours" if label == "ours" else "peers"]
                try:
                    if isinstance(python, Unavailable):
                        raise python
                    folder = place / f"{group}-{kind}-{size}"
                    database = None if server is None else _database(server, kind)
                    process = running.enter_context(StepProcess(kind, python, folder, database))
                except Unavailable as error:
                    yield Row(f"step, {group}", size, label, 0, 0, 0, note=f"not measured: {error}")
                    continue
                with _without_syncs(server):
                    process.fill(size - BATCH)
                started.append(Started(label, size, process))
        timed = in_turn(started, rounds=rounds)
    for one in started:
        own = timed[one.label, one.size]
        yield row(f"step, {group}", one.size, one.label, own, note=one.process.note)
    for one in started:
        if one.label != "ours":
            yield row(
                f"ratio, {group}",
                one.size,
                "ours",
                timed["ours", one.size],
                reference=(one.label, timed[one.label, one.size]),
                target=STEP_TARGET,
            )


def measure_sizes(place: Path, pythons: Mapping[str, Any], *, rounds: int) -> Iterator[Row]:
    """Time a step of ours in sessions of very different sizes, in files."""
    with ExitStack() as running:
        started = []
        for size in (SHORT, LONG, LARGE):
            process = StepProcess("ours", pythons["ours"], place / f"sizes-{size}")
            running.enter_context(process)
            process.fill(size - BATCH)
            started.append(Started("ours", size, process))
        timed = in_turn(started, rounds=rounds)
    for size in (SHORT, LONG, LARGE):
        yield row(
            "step, sizes",
            size,
            "ours",
            timed["ours", size],
            reference=(f"{SHORT} steps", timed["ours", SHORT]) if size != SHORT else None,
            target=SIZE_TARGET if size != SHORT else None,
        )


@contextmanager
def _without_syncs(server: PostgresServer | None) -> Iterator[None]:
    if server is not None:
        server.run("alter system set synchronous_commit = off")
        server.run("select pg_reload_conf()")
    yield
    if server is not None:
        server.run("alter system reset synchronous_commit")
        server.run("select pg_reload_conf()")


def _database(server: PostgresServer, kind: str) -> str:
    url = server.url_of(server.new_database())
    if kind in {"ours", "core"}:
        with closing(Database(url)) as database:
            migrate(database)
    return url


def measure_load(place: Path, python: Path | str, *, rounds: int) -> Iterator[Row]:
    """Time, in processor time of new processes, to take up a session of 100,000 steps."""
    with StepProcess("ours", python, place / "load") as process:
        process.fill(LARGE)
    timed = Timed()
    for _ in range(rounds):
        done = subprocess.run(
            [str(python), str(PROGRAMS.with_name("_steps_driver.py")), "load", str(place / "load")],
            check=True,
            capture_output=True,
            text=True,
            env=_environment(place),
        )
        timed.samples.append(json.loads(done.stdout)["processor_s"])
    limit = Timed([LOAD_TARGET_S] * rounds)
    yield row(
        "load", LARGE, "ours", timed, reference=("300 ms of processor time", limit), target=1.0
    )


def peers_python(parent: Path) -> Path | Unavailable:
    """Return the Python of the peers' environment, which is made if it is missing."""
    listed = (PROGRAMS / "requirements.txt").read_text().splitlines()
    packages = tuple(line for line in listed if line and not line.startswith("#"))
    try:
        return install(Peer("steps", packages), parent.resolve(), None)
    except (Unavailable, OSError) as error:
        return Unavailable(str(error))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--only", default=",".join(GROUPS), help="some of %(default)s")
    parser.add_argument("--peers", type=Path, default=Path(".benchmarks/step-peers"))
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"))
    given = parser.parse_args(arguments)
    wanted = given.only.split(",")
    rounds = 10 if given.quick else 60
    began = time.monotonic()
    pythons: dict[str, Any] = {"ours": sys.executable}
    if not {"job", "files", "postgres"}.isdisjoint(wanted):
        given.peers.mkdir(parents=True, exist_ok=True)
        pythons["peers"] = peers_python(given.peers)
    jobs: list[Job] = []
    rows: list[Row] = []
    with place_in(given.dir) as found:
        place = found.resolve()
        machine = facts(place)
        if "job" in wanted:
            jobs += run_jobs(place / "job", pythons)
        if "files" in wanted:
            rows += measure_files(place, pythons, rounds=rounds)
        if "postgres" in wanted:
            rows += measure_postgres(place, pythons, rounds=rounds)
        if "sizes" in wanted and not given.quick:
            rows += measure_sizes(place, pythons, rounds=rounds)
        if "load" in wanted and not given.quick:
            rows += measure_load(place, sys.executable, rounds=5)
    machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in rows if one.met is False or one.note.startswith("not measured")]
    missed_jobs = [one for one in jobs if one.why or (one.name == "ours" and not job_met(one))]
    if given.json:
        fields = [one.as_fields() for one in rows]
        print(
            json.dumps(
                {"machine": machine, "jobs": [one._asdict() for one in jobs], "rows": fields},
                indent=1,
            )
        )
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        if jobs:
            print(job_table(jobs), end="\n\n")
        if rows:
            print(table(rows))
    return 1 if given.check and (missed or missed_jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
