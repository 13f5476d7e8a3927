"""A program that is killed wherever it waits says and leaves what one says that nothing interrupts.

Each is killed at each of its questions: what is left is its directory and its workspace. In most
tries the process goes on, and opens another sandbox over a copy of the directory as it was at that
moment; in some the process itself is killed.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from tests.crash._nursery import Nursery
from tests.property.sandbox.live._kinds import Kind
from tests.property.sandbox.live._programs import (
    KINDS,
    STUB,
    STYLES,
    Program,
    answer_to,
    programs_of,
)
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600 if SOAKING else 600)]

RANDOM: Final = 2_000 if SOAKING else 10
REALLY_KILLED: Final = 200 if SOAKING else 3


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


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


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


def really_killed(program: Program, place: Path, nursery: Nursery) -> Ran:
    """Run each stretch of a program in a process that gets SIGKILL at its end."""
    given = {
        "workspace": str(place / "w"),
        "directory": str(place / "state"),
        "said": str(place / "said"),
    }
    source: str | None = program.source()
    for _ in range(program.questions + 1):
        child = nursery.start("run_stretch", source=source, **given)
        assert nursery.wait(child) == -9, nursery.heard()
        [told] = nursery.heard()
        source = None
    assert not told["waits"]
    said = [json.loads(line) for line in (place / "said").read_text().splitlines()]
    stdout, stderr = ("".join(one[which] for one in said) for which in (0, 1))
    return Ran(stdout, stderr, files(place / "w"), told["exit_code"])


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


def random_program(seed: int) -> Program:
    chance = random.Random(seed)
    style = STYLES[seed % len(STYLES)]
    kinds: list[Kind] = [
        one for one in KINDS.values() if style in {"awaited", "run"} or not one.awaits
    ]
    questions = chance.randint(1, 3)
    pairs = frozenset(one for one in range(1, questions + 1) if chance.random() < 0.3)
    return Program(tuple(chance.sample(kinds, chance.randint(3, 6))), style, questions, pairs)


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


def test_random_programs_go_on_in_processes_that_are_killed_at_each_question(
    tmp_path: Path, nursery: Nursery
) -> None:
    for seed in range(REALLY_KILLED):
        program = random_program(10_000 + seed)
        place = tmp_path / f"{seed}"
        wanted = uninterrupted(program, place / "whole")
        compared(really_killed(program, place, nursery), wanted, program)
        shutil.rmtree(place)
