"""Type checkers infer the result of each step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py")
ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(600)  # without its cache, mypy reads the whole package
def test_strict_mypy_infers_the_type_of_each_steps_result() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", PROGRAM],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stdout + done.stderr
