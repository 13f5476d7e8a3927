"""The worker process that is kept ready on the own host: whose it is, what it ran, when it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.executor import SandboxSettings
from agentforge_sessions.sandbox.interpreters.interpreter import loaded_host
from agentforge_sessions.sandbox.interpreters.process_pool import (
    close_pool,
    configure_pool,
    pool_stats,
)
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from agentforge_sessions.sandbox.isolation.worker_executor import WorkerExecutor, the_spare
from agentforge_sessions.sandbox.isolation.worker_process import WorkerProcess, WorkerStart
from agentforge_sessions.sandbox.isolation.worker_protocol import ServedSandbox
from agentforge_sessions.sandbox.request import checked_request
from tests.support.descriptors import held

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

OWNER = """
import os, signal, sys
from agentforge_sessions.sandbox import create_sandbox
from agentforge_sessions.sandbox.interpreters.process_pool import pool_stats
from agentforge_sessions.sandbox.isolation.worker_executor import the_spare

create_sandbox(workspace=sys.argv[1], isolation="process").execute("1")
print(the_spare.pid, pool_stats().spare_workers, flush=True)
"""


@pytest.fixture(autouse=True)
def _pool() -> Iterator[None]:
    prepare()
    size = pool_stats().size
    configure_pool(2)
    yield
    the_spare.close()
    configure_pool(size)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    made: list[Sandbox] = []

    def new(**options: object) -> Sandbox:
        workspace = tmp_path / f"w{len(made)}"
        made.append(create_sandbox(workspace=workspace, isolation="process", **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def spare(make: Callable[..., Sandbox]) -> int:
    """One that a sandbox with a worker left."""
    assert make().execute("print(1)").stdout == "1\n"
    pid = the_spare.pid
    assert pid is not None
    return pid


def worker_of(sandbox: Sandbox) -> int:
    assert isinstance(sandbox._executor, WorkerExecutor)
    assert sandbox._executor.worker is not None
    return sandbox._executor.worker.pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(fact: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_next_sandbox_is_given_it_and_another_takes_its_place(
    make: Callable[..., Sandbox], spare: int
) -> None:
    assert pool_stats().spare_workers == 1
    named = []
    for each in Path(f"/proc/{spare}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it closes what it has read
            named.append(os.readlink(each))
    policy = ExecutionPolicy(memory_bytes=128 << 20, environment={"NAME": "value"})
    sandbox = make(policy=policy)
    assert not any(str(sandbox.workspace.parent) in name for name in named)
    assert sandbox.execute("import os; print(os.environ['NAME'])").stdout == "value\n"
    assert worker_of(sandbox) == spare
    assert sandbox.execute("bytearray(300 << 20)").trapped == "memory"
    limits = Path(f"/proc/{spare}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max data size")).split()[
        3
    ] == str((2 << 30) + 4 * policy.memory_bytes)
    assert the_spare.pid not in (spare, None)


def test_there_is_never_more_than_one_and_descriptors_stay_flat(
    make: Callable[..., Sandbox], spare: int
) -> None:
    before = held()
    for _ in range(3):
        sandbox = make()
        assert sandbox.execute("1").success
        sandbox.close()
        assert held() == before
        assert pool_stats().spare_workers == 1
    assert not is_running(spare)


def test_one_that_died_is_replaced(make: Callable[..., Sandbox], spare: int) -> None:
    os.kill(spare, signal.SIGKILL)
    wait_for(lambda: not is_running(spare))
    assert pool_stats().spare_workers == 0
    sandbox = make()
    assert sandbox.execute("print(2)").stdout == "2\n"
    assert worker_of(sandbox) != spare
    assert pool_stats().spare_workers == 1


def test_one_that_ends_as_it_is_handed_out_is_no_error(
    make: Callable[..., Sandbox], spare: int
) -> None:
    kept = the_spare._worker
    assert kept is not None
    os.kill(spare, signal.SIGKILL)
    wait_for(lambda: not is_running(spare))
    kept._process.poll = lambda: None  # type: ignore[method-assign] # it ends after it was asked
    sandbox = make()
    assert sandbox.execute("print(2)").stdout == "2\n"
    assert worker_of(sandbox) != spare


def test_one_that_was_started_for_other_settings_is_ended(
    make: Callable[..., Sandbox], spare: int
) -> None:
    configure_pool(2, restore=False)
    try:
        sandbox = make()
        assert sandbox.execute("print(3)").stdout == "3\n"
        assert worker_of(sandbox) != spare
        assert not is_running(spare)
    finally:
        configure_pool(2, restore=True)


def test_it_ends_with_the_pool(spare: int) -> None:
    configure_pool(0)
    assert not is_running(spare)
    assert pool_stats().spare_workers == 0


def test_it_ends_when_the_pool_is_closed(spare: int) -> None:
    close_pool()
    assert not is_running(spare)


def test_a_forked_child_has_none_and_leaves_its_parents_alone(
    make: Callable[..., Sandbox], spare: int
) -> None:
    child = os.fork()
    if child == 0:
        left = the_spare.pid is None and the_spare.count() == 0
        the_spare.close()
        os._exit(0 if left else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sandbox = make()
    assert sandbox.execute("print(4)").stdout == "4\n"
    assert worker_of(sandbox) == spare


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_its_owner(tmp_path: Path, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWNER + end, tmp_path / "w"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if end else 0), done.stderr
    pid, count = map(int, done.stdout.split())
    assert count == 1
    wait_for(lambda: not is_running(pid))


def test_a_worker_begins_with_the_template_of_its_owner(tmp_path: Path) -> None:
    """By its descriptor: it may be kept in no file, and would be made by each process again."""
    cache = ensure_ready()
    assert cache is not None
    kept = loaded_host().prepared_file(cache)
    fd = os.memfd_create("of-the-owner")
    size = os.fstat(kept.image.fd).st_size
    while (at := os.lseek(fd, 0, os.SEEK_CUR)) < size:
        os.sendfile(fd, kept.image.fd, at, size - at)
    worker = WorkerProcess(WorkerStart.now(cache))
    try:
        job = ServedSandbox(tmp_path, ExecutionPolicy(), SandboxSettings())
        worker.begin(job, kept.with_descriptors(fd, fd))
        files = [os.readlink(each) for each in Path(f"/proc/{worker.pid}/fd").iterdir()]
        root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        request = checked_request(ExecutionPolicy(), stateful=False, code="print(5)")
        assert worker.execute(root, request, threading.Event()).stdout == "5\n"
        os.close(root)
    finally:
        worker.close()
        os.close(fd)
    assert any("of-the-owner" in name for name in files)
    assert not any(name.endswith(".template") for name in files)
