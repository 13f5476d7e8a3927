"""Type checkers infer the result of each step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import blocks_of

PROGRAM = Path(__file__).with_name("typed_program.py")
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "programs.md"


@pytest.mark.timeout(600)  # without its cache, mypy reads the whole package
def test_strict_mypy_infers_the_type_of_each_steps_result(tmp_path: Path) -> None:
    programs = [PROGRAM]
    for block in blocks_of(PAGE):
        if block.language == "python" and not block.not_run:
            programs.append(tmp_path / f"block_{block.line}.py")
            programs[-1].write_text(block.text, encoding="utf-8")
    assert len(programs) > 1
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *programs],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stdout + done.stderr
