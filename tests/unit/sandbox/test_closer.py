"""Descriptors that are closed by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.sandbox.closer import Closer


def opened() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def wait_until_closed(fd: int) -> None:
    until = time.monotonic() + 30
    while is_open(fd):
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_descriptor_is_closed_soon_and_the_thread_rests_and_begins_again() -> None:
    closer = Closer(idle_s=0.01)
    for _ in range(3):
        fd = opened()
        closer.close(fd)
        wait_until_closed(fd)
        while closer._thread is not None:
            time.sleep(0.005)


def test_what_is_too_much_is_closed_at_once() -> None:
    closer = Closer(most=0)
    fd = opened()
    closer.close(fd)
    assert not is_open(fd)
    assert closer._thread is None


def test_a_descriptor_that_is_closed_already_ends_nothing() -> None:
    closer = Closer()
    fd = opened()
    os.close(fd)
    closer.close(fd)
    other = opened()
    closer.close(other)
    wait_until_closed(other)


def test_a_process_ends_with_descriptors_still_waiting(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from tools.sandbox.closer import close_later\n"
        "for _ in range(50): close_later(os.open(sys.argv[1], os.O_RDONLY))\n"
        "if os.fork() == 0:\n"
        "    close_later(os.open(sys.argv[1], os.O_RDONLY)); os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("count", [1, 200])
def test_all_are_closed_however_many(count: int) -> None:
    closer = Closer(most=8)
    fds = [opened() for _ in range(count)]
    for fd in fds:
        closer.close(fd)
    for fd in fds:
        wait_until_closed(fd)
