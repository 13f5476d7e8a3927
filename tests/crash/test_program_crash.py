"""Programs whose processes are killed at their questions, and anywhere, go on: each effect once."""

from __future__ import annotations

import json
import random
import shutil
import signal
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.sandbox import create_sandbox, prepare
from tests.crash._nursery import Nursery
from tests.crash._program_tasks import SAID
from tests.property.sandbox.live._programs import STUB, random_program
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200 if SOAKING else 600)]

PROGRAMS: Final = 200 if SOAKING else 2
INSTANTS: Final = 10 if SOAKING else 2
KILLED: Final = {-signal.SIGKILL, -signal.SIGPROF}


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def files(workspace: Path) -> dict[str, bytes | None]:
    """All that a program left, but for what the tests gave it."""
    return {
        str(path.relative_to(workspace)): path.read_bytes() if path.is_file() else None
        for path in workspace.rglob("*")
        if path.name != "agentforge.py" and "__pycache__" not in path.parts
    }


def uninterrupted(source: str, workspace: Path) -> tuple[str, str, dict[str, bytes | None]]:
    """Run a program whose questions are answered at once."""
    with create_sandbox(workspace=workspace, stateful=True) as sandbox:
        result = sandbox.execute(source, files={"agentforge.py": STUB})
    assert result.exit_code == 0, result.stderr
    return result.stdout, result.stderr, files(workspace)


def given(place: Path) -> dict[str, Any]:
    return {"workspace": str(place / "w"), "directory": str(place / "state")}


@pytest.mark.parametrize("seed", range(10_000, 10_000 + PROGRAMS))
def test_a_program_goes_on_in_processes_that_are_killed_at_each_question(
    tmp_path: Path, nursery: Nursery, seed: int
) -> None:
    program = random_program(seed)
    said, source = tmp_path / "said", program.source()
    wanted = uninterrupted(source, tmp_path / "whole")
    for number in range(program.questions + 1):
        begins = {"source": source} if number == 0 else {}
        child = nursery.start("run_stretch", said=str(said), **given(tmp_path), **begins)
        assert nursery.wait(child) == -signal.SIGKILL, nursery.heard()
        [told] = nursery.heard()
        assert told["waits"] is (number < program.questions), program.name
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    found = *("".join(one[which] for one in lines) for which in (0, 1)), files(tmp_path / "w")
    assert found == wanted, f"{program.name}\n{source}"


@pytest.mark.parametrize("seed", range(20_000, 20_000 + PROGRAMS))
def test_a_program_that_is_killed_anywhere_goes_on_with_each_effect_once(
    tmp_path: Path, nursery: Nursery, seed: int
) -> None:
    program = random_program(seed)
    source = f"import sys\nsys.stdout = open({SAID!r}, 'w', 1)\n{program.source()}"
    _, _, wanted = uninterrupted(source, tmp_path / "whole")
    child = nursery.start("run_to_the_end", source=source, **given(tmp_path / "usual"))
    [told] = nursery.finish(child)
    assert files(tmp_path / "usual" / "w") == wanted, f"{program.name}\n{source}"
    for number in range(INSTANTS):
        place = tmp_path / str(number)
        chance = random.Random(f"{seed} {number}")
        kills = 0
        while True:
            cpu_s = chance.uniform(0, told["used_s"]) if kills < INSTANTS else None
            child = nursery.start("run_to_the_end", source=source, cpu_s=cpu_s, **given(place))
            code = nursery.wait(child)
            heard = nursery.heard()
            if code not in KILLED:
                break
            kills += 1
        assert code == 0, (kills, heard)
        assert files(place / "w") == wanted, f"{kills} kills, {program.name}\n{source}"
        shutil.rmtree(place)
