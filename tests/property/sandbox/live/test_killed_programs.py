"""A program that is killed wherever it waits says and leaves what one says that nothing interrupts.

Each loses its sandbox at each of its questions: the next one is opened over a copy of the directory
as it was at that moment, which is what a kill leaves. `tests/crash` kills the processes themselves.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from tests.property.sandbox.live._programs import (
    KINDS,
    STUB,
    Program,
    answer_to,
    programs_of,
    random_program,
)
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600 if SOAKING else 600)]

RANDOM: Final = 2_000 if SOAKING else 5


class Ran(NamedTuple):
    """What a program said and left."""

    stdout: str
    stderr: str
    files: dict[str, bytes | None]
    exit_code: int | None


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> Iterator[None]:
    """Nothing is opened ahead."""
    prepare()
    before = pool_stats().size
    configure_pool(0)
    yield
    configure_pool(before)


def files(workspace: Path) -> dict[str, bytes | None]:
    """All that a program left, but for what the tests gave it."""
    return {
        str(path.relative_to(workspace)): path.read_bytes() if path.is_file() else None
        for path in workspace.rglob("*")
        if path.name not in {"agentforge.py", "__pycache__"} and "__pycache__" not in path.parts
    }


def uninterrupted(program: Program, workspace: Path) -> Ran:
    """Run a program whose questions are answered at once."""
    with create_sandbox(workspace=workspace, stateful=True) as sandbox:
        result = sandbox.execute(program.source(), files={"agentforge.py": STUB})
    assert result.exit_code == 0, result.stderr
    return Ran(result.stdout, result.stderr, files(workspace), result.exit_code)


def answered(sandbox: Sandbox) -> dict[int, str]:
    assert sandbox.suspended is not None
    return {one.id: answer_to(one.question) for one in sandbox.suspended.requests}


def killed(program: Program, place: Path) -> Ran:
    """Run a program that loses its sandbox at each question."""
    workspace, states = place / "w", (place / f"state-{n}" for n in itertools.count())
    directory = next(states)

    def opened() -> Sandbox:
        return create_sandbox(workspace=workspace, stateful=True, durable=directory)

    sandbox = opened()
    result = sandbox.execute(program.source())
    stdout, stderr, waits = result.stdout, result.stderr, 0
    while result.suspended is not None:
        waits += 1
        left = next(states)
        shutil.copytree(directory, left)  # what a kill leaves; then it may close as it likes
        sandbox.close()
        shutil.rmtree(directory)
        directory = left
        sandbox = opened()
        result = sandbox.resume(answered(sandbox))
        stdout, stderr = stdout + result.stdout, stderr + result.stderr
    sandbox.close()
    assert waits == program.questions, (program.name, result)
    return Ran(stdout, stderr, files(workspace), result.exit_code)


def compared(found: Ran, wanted: Ran, program: Program) -> None:
    assert found == wanted, f"{program.name}\n{program.source()}"


@pytest.mark.parametrize(
    "program", programs_of(list(KINDS.values()), size=6), ids=lambda one: one.name
)
def test_a_program_goes_on_after_it_was_killed_at_each_question(
    tmp_path: Path, program: Program
) -> None:
    wanted = uninterrupted(program, tmp_path / "whole")
    compared(killed(program, tmp_path), wanted, program)


@pytest.mark.parametrize("part", range(10))
def test_random_programs_go_on_after_they_were_killed_at_each_question(
    tmp_path: Path, part: int
) -> None:
    for seed in range(part, RANDOM, 10):
        program = random_program(seed)
        place = tmp_path / f"{seed}"
        wanted = uninterrupted(program, place / "whole")
        compared(killed(program, place), wanted, program)
        shutil.rmtree(place)
