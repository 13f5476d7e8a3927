"""The example of asynchronous code leads its sessions to their end, on both event loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.sandbox import prepare

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "asynchronous.py"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_example_leads_three_sessions_to_their_end(backend: str, tmp_path: Path) -> None:
    prepare()
    base = tmp_path / "sessions"
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--backend", backend, "--sessions", base],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = SessionManager(base).list()
    assert [one.head.state for one in found] == [SessionState.COMPLETED] * 3
    assert done.stdout.count(": completed") == 3
    assert done.stdout.count("left in 'write'") == 1
