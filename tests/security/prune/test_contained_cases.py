"""The hostile cases of pruning, run where nothing but the test's folder can be written.

A prune that is led astray deletes what it must not; so the modules `cases_*.py` beside this one are
no tests of their own. Run one alone, and not contained, only where nothing can be lost.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import pytest

from tests.support.contained import contained
from tests.support.soak import SOAKING

HERE: Final = Path(__file__).parent
CASES: Final = sorted(path.stem for path in HERE.glob("cases_*.py"))
RUNS: Final = [[one] for one in CASES] if SOAKING else [CASES]
"""The modules that one contained process runs: each case has a folder of its own in any case."""
LIMIT_S: Final = 3600.0 if SOAKING else 600.0


def run_modules(folder: Path, modules: list[str]) -> None:
    """Run modules of cases with pytest, in this process."""
    words = [
        *(str(HERE / f"{module}.py") for module in modules),
        f"--basetemp={folder / 'cases'}",
        *("-n0", "-q", "-x", "-p", "no:cacheprovider"),
    ]
    os.environ.pop("PYTEST_ADDOPTS", None)  # it is for the run around, which writes elsewhere
    with redirect_stdout(sys.stderr):  # which the test shows where a case fails
        assert pytest.main(words) == pytest.ExitCode.OK


def test_there_are_cases() -> None:
    assert len(CASES) == 3


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("modules", RUNS, ids=" ".join)
def test_hostile_cases_contained(tmp_path: Path, modules: list[str]) -> None:
    contained(run_modules, tmp_path, modules, timeout_s=LIMIT_S)
