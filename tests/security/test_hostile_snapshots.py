"""A made-up snapshot is refused, or is a hostile guest: its limits end it, and it costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(1800)

COUNT: Final = 1000 if SOAKING else 40
MOST_GROWN_KIB: Final = 128 << 10
"""A restored guest may write to all of its memory before it ends; nothing of it stays."""


def test_snapshots_changed_by_chance_do_no_harm(tmp_path: Path) -> None:
    prepare()
    workspace, beside = tmp_path / "w", tmp_path / "beside"
    workspace.mkdir()
    beside.write_text("as it was")
    done = subprocess.run(
        [sys.executable, "-m", "tests.security._fuzzed_snapshots", workspace, "1", str(COUNT)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found["ends"].values()) == COUNT + 1
    assert found["descriptors"] == 0
    assert found["grown_kib"] < MOST_GROWN_KIB
    assert found["ends"]["exit 0"] > 1
    assert found["ends"]["refused"] > 1
    assert beside.read_text() == "as it was"
