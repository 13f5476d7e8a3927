"""Nothing but files of the workspace passes from one execution to the next.

Each way in `carried_state` is tried in an interpreter that is used again: one program leaves
something, the next looks for it; in this process and in one apart, with and without input. That the
looks would find it is shown with an interpreter that is kept on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    Sandbox,
    SandboxResult,
    create_sandbox,
    prepare,
)
from agentforge_sessions.sandbox.interpreters.process_pool import (
    configure_pool,
    pool_stats,
    warm_pool,
)
from tests.security.carried_state import CARRIERS, Carrier
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

POLICY = ExecutionPolicy(
    memory_bytes=256 << 20,
    workspace_bytes=80 << 20,
    output_bytes=1 << 20,
    file_calls=10_000,
    open_files=64,
)
FUEL = 600_000_000
SLOW_FUEL = 100 * FUEL

QUICK = {name: way for name, way in CARRIERS.items() if SOAKING or not way.slow}
KEPT = {name: way for name, way in QUICK.items() if way.kept}
INPUT = "left in the input"


def tried(ways: dict[str, Carrier], one_in: int, first: int = 0) -> list[str]:
    return list(ways) if SOAKING else list(ways)[first::one_in]


def with_and_without_input(one_in: int) -> list[tuple[str, str | None]]:
    return [
        (name, stdin)
        for first, stdin in enumerate((None, INPUT))
        for name in tried(QUICK, one_in, first)
    ]


def run(sandbox: Sandbox, way: Carrier, code: str, **options: Any) -> SandboxResult:
    fuel = SLOW_FUEL if way.slow else FUEL
    return sandbox.execute(code, fuel=fuel, **options)


def leave(sandbox: Sandbox, way: Carrier, **options: Any) -> None:
    left = run(sandbox, way, way.leave, **options)
    assert (left.exit_code, left.trapped, left.stderr) == (0, None, ""), left


def look(sandbox: Sandbox, way: Carrier, **options: Any) -> tuple[str, SandboxResult]:
    looked = run(sandbox, way, f"{way.look}\nprint('FOUND' if found else 'CLEAN')", **options)
    return looked.stdout[-6:-1] or f"{looked.trapped} {looked.stderr}", looked


@pytest.fixture(scope="module", autouse=True)
def _pool_of_one() -> Iterator[None]:
    """One interpreter is ready, that of the execution before, made what it was."""
    prepare()
    before = pool_stats().size
    configure_pool(1)
    yield
    configure_pool(before)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with create_sandbox(workspace=tmp_path_factory.mktemp("here"), policy=POLICY) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    workspace = tmp_path_factory.mktemp("apart")
    with create_sandbox(workspace=workspace, policy=POLICY, isolation="process") as sandbox:
        yield sandbox


def test_the_ways_are_numerous() -> None:
    assert len(CARRIERS) >= 100


@pytest.mark.parametrize("name", tried(KEPT, 4))
def test_what_is_left_is_found_where_the_interpreter_is_kept(tmp_path: Path, name: str) -> None:
    way = CARRIERS[name]
    with create_sandbox(workspace=tmp_path / "w", policy=POLICY, stateful=True) as sandbox:
        leave(sandbox, way)
        assert look(sandbox, way)[0] == "FOUND"


@pytest.mark.parametrize(("name", "stdin"), with_and_without_input(4))
def test_nothing_is_left_for_the_next_execution(
    here: Sandbox, name: str, stdin: str | None
) -> None:
    way = CARRIERS[name]
    warm_pool()
    leave(here, way, stdin=stdin)
    warm_pool()
    found, looked = look(here, way, stdin=stdin)
    assert found == "CLEAN"
    assert looked.metadata["interpreter"] == "pool"


@pytest.mark.parametrize(("name", "stdin"), with_and_without_input(16))
def test_nothing_is_left_for_the_next_execution_of_a_process_apart(
    apart: Sandbox, name: str, stdin: str | None
) -> None:
    way = CARRIERS[name]
    leave(apart, way, stdin=stdin)
    assert look(apart, way, stdin=stdin)[0] == "CLEAN"


@pytest.mark.parametrize("name", tried(QUICK, 12, 2))
def test_nothing_of_a_program_is_in_another_that_was_restored(
    here: Sandbox, tmp_path: Path, name: str
) -> None:
    way = CARRIERS[name]

    def program(which: str) -> Sandbox:
        return create_sandbox(
            workspace=tmp_path / which,
            policy=POLICY,
            stateful=True,
            durable=tmp_path / f"{which}-state",
        )

    with program("theirs") as theirs, program("mine") as mine:
        leave(mine, way)
        theirs.execute("pass")
    with program("mine") as mine, program("theirs") as theirs:
        mine.execute("pass")
        assert look(theirs, way)[0] == "CLEAN"
        if way.kept:
            assert look(mine, way)[0] == "FOUND"
    warm_pool()
    assert look(here, way)[0] == "CLEAN"
