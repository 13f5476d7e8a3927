"""Many executions on the own host leave nothing behind, neither here nor in a worker process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.isolation.worker_executor import WorkerExecutor
from tests.support.promptness import PATIENCE_S
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(3600)

EXECUTIONS = 10_000 if SOAKING else 50
FAILURES = 1_000 if SOAKING else 10
THREADS = 8

GOOD = "open('f', 'w').write('x'); import os; os.remove('f'); fd = os.open('/tmp', os.O_RDONLY)"
BAD = [
    "1/0",
    "import os; os._exit(3)",
    "raise SystemExit(2)",
    "open('held', 'w'); bytearray(300 << 20); bytearray(1 << 30)",
    "while True: pass",
]
FUEL = 100_000_000
"""Enough for all but the last of them."""


def held(pid: int | str = "self") -> dict[str, int]:
    gc.collect()
    process = Path(f"/proc/{pid}")
    resident = next(
        line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return {
        "descriptors": len(os.listdir(process / "fd")),
        "threads": len(os.listdir(process / "task")),
        "mappings": len((process / "maps").read_text().splitlines()),
        "resident": int(resident.split()[1]) >> 10,
    }


def run(sandbox: Sandbox, executions: int, failures: int) -> None:
    for _ in range(executions):
        assert sandbox.execute(GOOD).success
    for i in range(failures):
        assert not sandbox.execute(BAD[i % len(BAD)], fuel=FUEL).success


def stays_flat(work: Callable[[int, int], None], *pids: int | str, threads: int = 1) -> None:
    """What processes hold is the same after much work as after a little.

    Interpreters that are not used again are closed in the background, so it is waited for.
    """
    most = {
        "descriptors": 4 * threads,
        "threads": 1 + threads,
        "mappings": 60 * threads,
        # After few executions what other tests of this process left to be freed counts for more.
        "resident": 60 + 20 * (threads - 1) if SOAKING else 300,
    }
    work(3, 3 * len(BAD))
    before = [held(pid) for pid in pids]
    work(EXECUTIONS, FAILURES)
    for pid, was in zip(pids, before, strict=True):
        now = settled(pid, lambda now, was=was: all(now[it] <= was[it] + most[it] for it in most))
        print(EXECUTIONS, FAILURES, was, now)
        assert {it: now[it] - was[it] for it in most if now[it] - was[it] > most[it]} == {}


def settled(pid: int | str, enough: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """What a process holds once that is enough, or after a minute."""
    until = time.monotonic() + PATIENCE_S
    while not enough(now := held(pid)) and time.monotonic() < until:
        time.sleep(0.1)
    return now


def test_descriptors_threads_mappings_and_memory_stay_flat(tmp_path: Path) -> None:
    prepare()
    sandbox = create_sandbox(workspace=tmp_path / "w")
    stays_flat(lambda executions, failures: run(sandbox, executions, failures), "self")


def test_so_they_do_in_a_worker_process_and_where_it_is_asked(tmp_path: Path) -> None:
    prepare()
    with create_sandbox(workspace=tmp_path / "w", isolation="process") as sandbox:
        assert sandbox.execute(GOOD).success
        assert isinstance(sandbox._executor, WorkerExecutor)
        worker = sandbox._executor.worker
        assert worker is not None
        stays_flat(
            lambda executions, failures: run(sandbox, executions, failures), "self", worker.pid
        )
        assert worker.alive


def test_so_they_do_with_eight_threads(tmp_path: Path) -> None:
    prepare()
    sandboxes = [create_sandbox(workspace=tmp_path / str(i)) for i in range(THREADS)]

    def work(executions: int, failures: int) -> None:
        each = -(-executions // THREADS), -(-failures // THREADS)
        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(run, sandbox, *each) for sandbox in sandboxes]:
                done.result()

    stays_flat(work, "self", threads=THREADS)
