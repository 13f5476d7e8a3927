"""Signals whose handlers raise, while a guest runs on the main thread: raised, and nothing falls.

Each program is a process of its own, since what goes wrong here ends a process by a signal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROUNDS = 400 if SOAKING else 60

INTERRUPTED = """
import signal, sys
from agentforge_sessions.sandbox import create_sandbox

class Rang(BaseException):
    pass

def ring(number, frame):
    raise Rang

def hand_on(text):
    while waits:
        pass

signal.signal(signal.SIGALRM, ring)
workspace, source, streams, rounds = sys.argv[1:]
sandbox = create_sandbox(workspace=workspace)
sandbox.execute("1")
rang, waits = 0, True
for number in range(int(rounds)):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004 + number % 20 * 0.0007)
        sandbox.execute(source, on_stdout=hand_on if streams == "streams" else None)
    except Rang:
        rang += 1
waits = False
print(rang, sandbox.execute("print(6 * 7)").stdout, end="")
"""

EVERYWHERE = """
import signal, sys
from agentforge_sessions.sandbox import create_sandbox

class Rang(BaseException):
    pass

def raise_it(number, frame):
    raise Rang

def ringing_at(place):
    # Where the interpreter looks for signals: a function of Python's begins, one of C's returned.
    def ring(frame, event, function):
        nonlocal place
        if event in ("call", "c_return"):
            place -= 1
            if place < 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)
    return ring

signal.signal(signal.SIGUSR1, raise_it)
sandbox = create_sandbox(workspace=sys.argv[1], busy_timeout_s=0.01)
sandbox.execute("1")
place, rang = 0, 0
while True:
    sys.setprofile(ringing_at(place))
    try:
        sandbox.execute("import os; os.stat('/app'); print(1)")
    except Rang:
        rang += 1
    else:
        sys.setprofile(None)
        break
    result = sandbox.execute("print(2)")
    assert result.stdout == "2\\n", (place, result)
    place += int(sys.argv[2])
print(place, rang, sandbox.execute("print(6 * 7)").stdout, end="")
"""

NOTED = """
import os, signal, sys
from agentforge_sessions.sandbox import create_sandbox

came = []
interrupts = signal.getsignal(signal.SIGINT)
signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
sandbox = create_sandbox(workspace=sys.argv[1])
sandbox.execute("1")

def send(text):
    os.kill(os.getpid(), signal.SIGUSR1)

result = sandbox.execute("print(1)\\nfor i in range(2_000_000): pass\\nprint(2)", on_stdout=send)
print(result.success, len(came), signal.getsignal(signal.SIGUSR1).__name__,
      signal.getsignal(signal.SIGINT) is interrupts)
"""


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("source", "streams"),
    [
        ("while True: pass", "none"),
        ("import os\nwhile True: os.stat('/app')", "none"),
        ("import time\nwhile True: time.sleep(0.003)", "none"),
        ("while True: print(1)", "streams"),
    ],
)
def test_a_handler_that_raises_ends_the_execution_and_nothing_else(
    tmp_path: Path, source: str, streams: str
) -> None:
    done = run(INTERRUPTED, tmp_path / "w", source, streams, ROUNDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ROUNDS} 42\n"


def test_a_handler_that_raises_anywhere_in_an_execution_leaves_the_workspace_free(
    tmp_path: Path,
) -> None:
    step = 1 if SOAKING else 7
    done = run(EVERYWHERE, tmp_path / "w", step)
    assert (done.returncode, done.stderr) == (0, "")
    places, rang, answer = map(int, done.stdout.split())
    assert (places, answer) == (rang * step, 42)
    assert places > 900


def test_a_handler_that_takes_note_is_run_and_ends_nothing(tmp_path: Path) -> None:
    done = run(NOTED, tmp_path / "w")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "True 2 <lambda> True\n"
