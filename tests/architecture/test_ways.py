"""How far five everyday actions go through the package: bounds that only become lower.

Raising a bound is a line in a commit, with its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.ways import Way

CHECKOUT: Final = Path(__file__).parents[2]
BOUNDS: Final = {
    "a_save": Way(calls=86, modules=19, crossings=14),
    "a_load": Way(calls=84, modules=19, crossings=7),
    "a_phase": Way(calls=755, modules=89, crossings=89),  # a file just written is read again
    "a_question": Way(calls=722, modules=33, crossings=192),
    "a_prune": Way(calls=560, modules=45, crossings=106),  # which thread deletes varies
}
"""The most that each way may cost."""


def way(name: str, base: Path) -> Way:
    """Follow an action in a process of its own."""
    program = [sys.executable, "-m", "tests.architecture.ways", name, str(base)]
    done = subprocess.run(program, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Way(*json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BOUNDS)
def test_an_everyday_action_goes_no_further_than_its_bound(name: str, tmp_path: Path) -> None:
    figures = zip(Way._fields, way(name, tmp_path / "base"), BOUNDS[name], strict=True)
    over = {figure: f"{found}, at most {most}" for figure, found, most in figures if found > most}
    assert over == {}
