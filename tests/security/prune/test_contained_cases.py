"""The hostile cases of pruning, each module run where nothing but the test's folder can be written.

A prune that is led astray deletes what it must not; so the modules `cases_*.py` beside this one are
no tests of their own. Run one alone, and not contained, only where nothing can be lost.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import pytest

from tests.support.contained import contained
from tests.support.soak import SOAKING

HERE: Final = Path(__file__).parent
CASES: Final = sorted(path.stem for path in HERE.glob("cases_*.py"))
LIMIT_S: Final = 3600.0 if SOAKING else 600.0


def run_module(folder: Path, module: str) -> None:
    """Run a module of cases with pytest, in this process."""
    words = [
        str(HERE / f"{module}.py"),
        f"--basetemp={folder / 'cases'}",
        *("-n0", "-q", "-x", "-p", "no:cacheprovider"),
    ]
    with redirect_stdout(sys.stderr):  # which the test shows where a case fails
        assert pytest.main(words) == pytest.ExitCode.OK


def test_there_are_cases() -> None:
    assert len(CASES) == 3


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("module", CASES)
def test_hostile_cases_contained(tmp_path: Path, module: str) -> None:
    contained(run_module, tmp_path, module, timeout_s=LIMIT_S)
