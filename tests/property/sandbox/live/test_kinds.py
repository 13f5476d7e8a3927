"""Each kind runs to its end by itself in each style, where nothing interrupts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import create_sandbox, prepare
from tests.property.sandbox.live._programs import (
    COROUTINES,
    KINDS,
    STUB,
    STYLES,
    Program,
)
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ALONE = [
    Program((kind,), style, 3, frozenset({3}))
    for kind in KINDS.values()
    for style in (COROUTINES if kind.awaits else STYLES)
]
TRIED = ALONE if SOAKING else ALONE[::90]
"""The others run whole, several in a program, in `test_killed_programs`."""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def test_the_kinds_are_numerous() -> None:
    assert len(KINDS) >= 60


@pytest.mark.parametrize("program", TRIED, ids=lambda program: program.name)
def test_a_program_runs_to_its_end_where_questions_are_answered_at_once(
    tmp_path: Path, program: Program
) -> None:
    with create_sandbox(workspace=tmp_path / "w", stateful=True) as sandbox:
        result = sandbox.execute(program.source(), files={"agentforge.py": STUB})
    assert (result.exit_code, result.trapped) == (0, None), result.stderr + result.stdout
    assert result.stdout.endswith("end\n")
