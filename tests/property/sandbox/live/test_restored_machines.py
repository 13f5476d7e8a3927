"""What variables, modules and files hold goes on in another machine, to the byte of its memory.

Each kind runs turn by turn, once in one machine, and once in a new machine for each turn, that has
nothing but the snapshot of the one before and the workspace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import prepare
from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot
from tests.property.sandbox.live._kinds import Kind
from tests.property.sandbox.live._programs import KINDS
from tests.support.live_machines import loaded, machines, saved
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

PARTS: Final = 8
TURNED: Final = [kind for kind in KINDS.values() if not kind.around and not kind.awaits]
"""Those that hold nothing which ends with a turn."""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def turns(kind: Kind) -> list[str]:
    before = [kind.text("prelude", 0), kind.text("setup", 0)]
    uses = [kind.text("use", 0, 1), kind.text("use", 0, 2), kind.text("after", 0)]
    return [f"exec(compile({code!r}, '<turn>', 'exec'))" for code in ("\n".join(before), *uses)]


def files(workspace: Path) -> dict[str, bytes | None]:
    """All that is in a workspace."""
    return {
        str(path.relative_to(workspace)): path.read_bytes() if path.is_file() else None
        for path in workspace.rglob("*")
    }


def run(kind: Kind, workspace: Path) -> tuple[list[str], dict[str, bytes | None]]:
    """Run a kind in one machine."""
    with machines(workspace) as new:
        machine = new()
        said = [machine.run(code) for code in turns(kind)]
        return said, files(workspace)


def run_restored(kind: Kind, workspace: Path) -> tuple[list[str], dict[str, bytes | None]]:
    """Run a kind in a new machine for each turn."""
    with machines(workspace) as new:
        machine, said = new(), []
        for code in turns(kind):
            said.append(machine.run(code))
            state = machine.capture(wall_ns=lambda: 5)
            snapshot = bytes(saved(state))
            machine.machine.close_files()
            machine = new()
            machine.restore(loaded(ProgramSnapshot(snapshot)), wall_ns=lambda: 5)
            again = machine.capture(wall_ns=lambda: 5)
            assert again.monotonic_ns >= state.monotonic_ns, kind.name
            assert again._replace(monotonic_ns=0) == state._replace(monotonic_ns=0), kind.name
        return said, files(workspace)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_kind_says_and_leaves_in_new_machines_what_it_does_in_one(
    tmp_path: Path, part: int
) -> None:
    for number, kind in enumerate(TURNED[part :: PARTS if SOAKING else 3 * PARTS]):
        said, left = run(kind, tmp_path / f"{number}")
        assert run_restored(kind, tmp_path / f"{number}-restored") == (said, left), kind.name
