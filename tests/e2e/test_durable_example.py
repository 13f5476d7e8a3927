"""The example of a program that survives pays each call once, whenever it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "durable.py"
REPORT = "review of draft of outline of rivers"


def test_a_killed_report_goes_on_after_its_last_paid_call(tmp_path: Path) -> None:
    def start(*more: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, EXAMPLE, "rivers", "--sessions", tmp_path / "sessions", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    assert start("--killed-in", "draft") == (-signal.SIGKILL, ["paid: outline"])
    assert start("--killed-in", "review") == (-signal.SIGKILL, ["paid: draft"])
    assert start() == (0, ["paid: review", REPORT])
    assert start() == (0, [REPORT])
