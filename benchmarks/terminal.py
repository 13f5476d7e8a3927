"""What the terminal costs while questions wait and nobody touches a key.

    python -m benchmarks.terminal            # about two minutes
    python -m benchmarks.terminal --quick    # fewer sessions, half a minute
    python -m benchmarks.terminal --json     # the same, for a program
    python -m benchmarks.terminal --check    # exit code 1 if the target is missed

The real program runs at a pseudo-terminal of 80 by 24; what is measured is the processor time of
its process, all threads, over the same stretch of time for all candidates, in percent of one core.
All run side by side, so that whatever else the machine does hits all of them alike.

Candidates: the queue with so many waiting sessions; the same while a session comes every second;
the queue with none, which is what drawing costs; and the reference, a program that draws nothing
and reads each session's status.json every 200 ms.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from agentforge_sessions.questions import Option, Question, QuestionsConfig, QuestionSessions

TARGET_PERCENT = 2.0
"""The most that the terminal may take of one core with 1,000 waiting sessions."""

SETTLE_S = 6.0
_QUESTION = Question(
    title="Storage",
    prompt="Which **database** should the job queue use?",
    options=(Option(label="SQLite (recommended)"), Option(label="PostgreSQL")),
)
_POLLER = """
import json, pathlib, sys, time
base = pathlib.Path(sys.argv[1])
while True:
    began = time.monotonic()
    for one in base.iterdir():
        if not one.name.startswith("."):
            json.loads((one / "status.json").read_bytes())
    time.sleep(max(0.0, 0.2 - (time.monotonic() - began)))
"""


@dataclass
class Cost:
    """What one candidate took.

    Attributes:
        what: The candidate.
        sessions: How many sessions waited at the start.
        seconds: How long it was watched.
        percent: Processor time in percent of one core.
        ratio: That of the reference, as a multiple of this; None for the reference.
        target: The most percent that meets the target, or None.
    """

    what: str
    sessions: int
    seconds: float
    percent: float
    ratio: float | None = None
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.percent < self.target


def make_sessions(base: Path, count: int) -> QuestionSessions:
    """Have so many sessions wait."""
    sessions = QuestionSessions(base, config=QuestionsConfig(max_sessions=count + 10_000))
    sessions.prepare()
    for _ in range(count):
        sessions.create_session([_QUESTION])
    return sessions


@contextmanager
def at_terminal(*command: str, directory: Path) -> Iterator[psutil.Process]:
    """Run a program at a pseudo-terminal that somebody reads, and end it."""
    keyboard, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.getcwd()},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)

    def read() -> None:
        try:
            while os.read(keyboard, 65536):
                pass
        except OSError:  # the other end is closed
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield psutil.Process(process.pid)
        if process.poll() is not None:
            raise RuntimeError(f"{command} ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
        reader.join(5)
        os.close(keyboard)


def used(process: psutil.Process) -> float:
    """Return the processor time of a process so far, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def measure(directory: Path, *, count: int, seconds: float) -> list[Cost]:
    """Run all candidates side by side and say what each took."""
    busy = make_sessions(directory / "busy", count)
    make_sessions(directory / "still", count)
    make_sessions(directory / "polled", count)  # its own: reading is what a watcher hears, too
    make_sessions(directory / "none", 0)
    command = (
        sys.executable,
        "-m",
        "agentforge_sessions.entrypoints.cli",
        "questions",
        "--no-bell",
        "--questions",
    )
    candidates = {
        "the queue": (count, (*command, str(directory / "still"))),
        "the queue, a session more each second": (count, (*command, str(directory / "busy"))),
        "the queue, empty": (0, (*command, str(directory / "none"))),
        "reading all every 200 ms": (
            count,
            (sys.executable, "-c", _POLLER, str(directory / "polled")),
        ),
    }
    with ExitStack() as running:
        processes = {
            name: running.enter_context(at_terminal(*words, directory=directory))
            for name, (_, words) in candidates.items()
        }
        time.sleep(SETTLE_S)
        began = time.monotonic()
        before = {name: used(process) for name, process in processes.items()}
        while time.monotonic() - began < seconds:
            busy.create_session([_QUESTION])
            time.sleep(1)
        after = {name: used(process) for name, process in processes.items()}
        took = time.monotonic() - began
    costs = [
        Cost(name, size, took, 100 * (after[name] - before[name]) / took)
        for name, (size, _) in candidates.items()
    ]
    reference = costs[-1].percent
    for one in costs[:-1]:
        one.ratio = reference / one.percent if one.percent else None
    costs[0].target = TARGET_PERCENT
    return costs


def table(costs: list[Cost]) -> str:
    """Write the costs as a Markdown table."""
    lines = [
        "| what | sessions | seconds | % of one core | the reference takes | target | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in costs:
        ratio = "" if one.ratio is None else f"{one.ratio:.1f} times as much"
        target = "" if one.target is None else f"< {one.target:g} %"
        verdict = {True: "met", False: "MISSED", None: ""}[one.met]
        lines.append(
            f"| {one.what} | {one.sessions:,} | {one.seconds:.0f} | {one.percent:.2f} | {ratio} "
            f"| {target} | {verdict} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100 sessions, 10 seconds")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the target is missed")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"), help="where to write")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="terminal-", dir=options.dir.resolve()))
    try:
        costs = measure(
            directory,
            count=100 if options.quick else 1000,
            seconds=10.0 if options.quick else 60.0,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps([{**asdict(one), "met": one.met} for one in costs], indent=2))
    else:
        print(table(costs))
    return 1 if options.check and any(one.met is False for one in costs) else 0


if __name__ == "__main__":
    sys.exit(main())
