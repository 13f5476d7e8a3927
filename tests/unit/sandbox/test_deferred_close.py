"""Descriptors that are closed by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.session_workspaces.session_directory import DeferredCloser
from tests.support.descriptors import held_below
from tests.support.interruption import interrupted_everywhere


def opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY)


def wait_until_closed(path: Path) -> None:
    until = time.monotonic() + 30
    while held_below(path):
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_descriptor_is_closed_soon_and_the_thread_rests_and_begins_again(tmp_path: Path) -> None:
    closer = DeferredCloser(idle_s=0.01)
    for _ in range(3):
        closer.close(opened(tmp_path))
        wait_until_closed(tmp_path)
        while closer._thread is not None:
            time.sleep(0.005)


def test_what_is_too_much_is_closed_at_once(tmp_path: Path) -> None:
    closer = DeferredCloser(most=0)
    closer.close(opened(tmp_path))
    assert held_below(tmp_path) == []
    assert closer._thread is None


def test_a_descriptor_that_is_closed_already_ends_nothing(tmp_path: Path) -> None:
    closer = DeferredCloser()
    closer.close(1 << 30)  # nobody else's either
    closer.close(opened(tmp_path))
    wait_until_closed(tmp_path)


def test_a_handler_that_raises_while_a_descriptor_is_handed_over_leaves_others_closed(
    tmp_path: Path,
) -> None:
    (tmp_path / "others").mkdir()
    closer = DeferredCloser(idle_s=3600)
    closer.close(opened(tmp_path / "others"))  # its thread has started
    handed: list[int] = []

    def hand_over() -> None:
        closer.close(handed[-1])

    handed.append(opened(tmp_path))
    for _ in interrupted_everywhere(hand_over):
        other = threading.Thread(
            target=closer.close, args=(opened(tmp_path / "others"),), daemon=True
        )
        other.start()
        other.join(10)
        assert not other.is_alive()
        wait_until_closed(tmp_path / "others")
        handed.append(opened(tmp_path))


def test_a_process_ends_with_descriptors_still_waiting(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from agentforge_sessions.sandbox.session_workspaces.session_directory import close_later\n"
        "for _ in range(50): close_later(os.open(sys.argv[1], os.O_RDONLY))\n"
        "if os.fork() == 0:\n"
        "    close_later(os.open(sys.argv[1], os.O_RDONLY)); os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    done = subprocess.run(
        # Python 3.12 and later warn of every fork beside a thread, and this is one on purpose
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("count", [1, 200])
def test_all_are_closed_however_many(tmp_path: Path, count: int) -> None:
    closer = DeferredCloser(most=8)
    for fd in [opened(tmp_path) for _ in range(count)]:
        closer.close(fd)
    wait_until_closed(tmp_path)
