"""The end of a process in which code has run."""

from __future__ import annotations

import subprocess
import sys


def test_it_waits_for_threads_runs_exit_functions_and_writes_out_what_was_printed() -> None:
    program = (
        "import atexit, sys, threading\n"
        "from agentforge_sessions.sandbox.process_exit import end_process\n"
        "atexit.register(print, 'at exit')\n"
        "ready = threading.Event()\n"
        "thread = threading.Thread(target=lambda: (ready.wait(), print('thread')))\n"
        "thread.start()\n"
        "print('end')\n"
        "ready.set()\n"
        "end_process(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert sorted(done.stdout.split("\n")[:2]) == ["end", "thread"]
    assert done.stdout.endswith("at exit\n")


def test_a_closed_output_does_not_change_the_exit_code() -> None:
    program = (
        "import sys\nfrom agentforge_sessions.sandbox.process_exit import end_process\n"
        "sys.stdout.close()\nend_process(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 3
