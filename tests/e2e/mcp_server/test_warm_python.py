"""What stands for Python in these tests begins, is ended and ends as Python does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from tests.support.mcp_processes import DEADLINE_S, environment
from tests.support.signals import usual_signals
from tests.support.warm_python import warm_python

WAITS = "import sys; print(__import__('os').getpid(), flush=True); sys.stdin.read()"


@pytest.fixture(scope="module")
def python() -> Iterator[Sequence[str]]:
    with warm_python("json", env={**environment(), "ELSEWHERE": "1"}) as command:
        yield command


def started(python: Sequence[str], code: str) -> subprocess.Popen[str]:
    with usual_signals():
        return subprocess.Popen(
            [*python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )


def test_it_is_started_with_what_python_would_be_started_with(
    python: Sequence[str], tmp_path: Path
) -> None:
    code = """if True:
        import os, sys
        print(sys.argv, os.getcwd(), dict(os.environ), sys.stdin.read())
        sys.stdout.reconfigure(errors="replace")
        print(sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stderr.errors)
        print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1], file=sys.stderr)
        sys.exit(3)
        """
    ended = [
        subprocess.run(
            [*command, "-c", code, "one", "-two"],
            cwd=tmp_path,
            env={"LC_CTYPE": "C.UTF-8", "NAME": "\udcff"},
            input="said",
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        for command in (python, [sys.executable])
    ]
    assert ended[0].stderr == ended[1].stderr == "[0, 1, 2]\n"
    assert ended[0].stdout == ended[1].stdout
    assert "'one', '-two'" in ended[0].stdout
    assert [one.returncode for one in ended] == [3, 3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_is_told(python: Sequence[str], number: signal.Signals) -> None:
    with started(python, WAITS) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == -number


def test_who_kills_it_ends_what_it_stands_for(python: Sequence[str]) -> None:
    with started(python, WAITS) as process:
        assert process.stdout is not None
        forked = psutil.Process(int(process.stdout.readline()))
        assert forked.pid != process.pid
        process.kill()
        assert process.stdout.read() == ""  # both ends of its output are closed
        process.wait(DEADLINE_S)
        psutil.wait_procs([forked], DEADLINE_S)
        assert not forked.is_running()


def test_its_standard_streams_are_its_own(python: Sequence[str]) -> None:
    with started(python, "import os; os.close(1); __import__('sys').stdin.read()") as process:
        assert process.stdout is not None
        assert process.stdout.read() == ""  # while it runs
        assert process.poll() is None
        process.communicate("", DEADLINE_S)
        assert process.returncode == 0


def test_what_still_runs_at_the_end_is_killed() -> None:
    with warm_python("json", env=dict(os.environ)) as python:
        process = started(python, WAITS)
        assert process.stdout is not None
        process.stdout.readline()
    with process:
        assert process.wait(DEADLINE_S) != 0
