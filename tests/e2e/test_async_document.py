"""The code of docs/async.md and the example beside it run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.sandbox import prepare

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "async.md").read_text(encoding="utf-8")
PIECES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", range(len(PIECES)))
def test_code_of_the_page_runs(number: int, backend: str, tmp_path: Path) -> None:
    prepare()
    if "import asyncio" in PIECES[number] and backend == "trio":
        pytest.skip("it is asyncio's own")
    names: dict[str, Any] = {"base": tmp_path / "sessions", "folder": tmp_path}
    exec(compile(PIECES[number], "docs/async.md", "exec", dont_inherit=True), names)
    anyio.run(names["main"], backend=backend)
    assert (tmp_path / "sessions").exists() or (tmp_path / "work").exists()


def test_page_has_code_for_each_part() -> None:
    assert len(PIECES) >= 5


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_example_leads_three_sessions_to_their_end(backend: str, tmp_path: Path) -> None:
    prepare()
    base = tmp_path / "sessions"
    script = ROOT / "examples" / "asynchronous.py"
    done = subprocess.run(
        [sys.executable, str(script), "--backend", backend, "--sessions", str(base)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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
