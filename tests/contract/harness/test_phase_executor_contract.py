"""What every phase executor promises, whoever makes it.

A new one is one more entry in `EXECUTORS`: a function from the store of its sessions to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.executors import FakeExecutor
from tools.bootstrap import SandboxPhaseExecutor
from tools.harness import (
    PhaseExecutor,
    PhaseResult,
    SessionContext,
    SessionManager,
    SessionStore,
)

SESSION: Final = "session_1"


class ScriptedExecutor(FakeExecutor):
    """Plays what a real executor does with the pieces of code that this suite runs."""

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        super().execute(code, session_id=session_id, deadline_s=deadline_s, fuel=fuel)
        if code == GOOD:
            return PhaseResult(success=True, exit_code=0, stdout="done\n")
        if code == ENDLESS:
            return PhaseResult(success=False, trapped="deadline" if fuel is None else "fuel")
        if code == WRITES:
            return PhaseResult(success=True, exit_code=0, files_created=("made.txt",))
        if code == EXITS:
            return PhaseResult(success=False, exit_code=3)
        return PhaseResult(success=False, exit_code=1, stderr="Traceback: ValueError: no\n")


GOOD: Final = "print('done')"
RAISES: Final = "raise ValueError('no')"
EXITS: Final = "raise SystemExit(3)"
ENDLESS: Final = "while True: pass"
WRITES: Final = "open('made.txt', 'w').write('x')"
BROKEN: Final = "def ("


def scripted(store: SessionStore) -> PhaseExecutor:
    return ScriptedExecutor()


def sandboxed(store: SessionStore) -> PhaseExecutor:
    return SandboxPhaseExecutor(store)


EXECUTORS: Final[dict[str, Callable[[SessionStore], PhaseExecutor]]] = {
    "scripted": scripted,
    "sandboxed": sandboxed,
}


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest, base: Path) -> PhaseExecutor:
    store = SessionStore(base)
    store.save(SessionContext.create(session_id=SESSION))
    made: PhaseExecutor = EXECUTORS[request.param](store)
    return made


def run(executor: PhaseExecutor, code: str, **limits: float) -> PhaseResult:
    return executor.execute(code, session_id=SESSION, **limits)  # type: ignore[arg-type]


def test_it_is_a_phase_executor(executor: PhaseExecutor) -> None:
    assert isinstance(executor, PhaseExecutor)


def test_code_that_runs_to_its_end_succeeds(executor: PhaseExecutor) -> None:
    result = run(executor, GOOD)
    assert result.success
    assert result.exit_code == 0
    assert result.trapped is None
    assert result.stdout == "done\n"


@pytest.mark.parametrize("code", [RAISES, BROKEN])
def test_code_that_raises_is_in_the_result_and_raises_nothing_here(
    executor: PhaseExecutor, code: str
) -> None:
    result = run(executor, code)
    assert not result.success
    assert result.exit_code not in {0, None}
    assert result.stderr


def test_an_exit_code_is_told(executor: PhaseExecutor) -> None:
    result = run(executor, EXITS)
    assert not result.success
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("limits", "trap"), [({"deadline_s": 0.5}, "deadline"), ({"fuel": 50_000_000}, "fuel")]
)
def test_a_limit_ends_code_that_never_would(
    executor: PhaseExecutor, limits: dict[str, float], trap: str
) -> None:
    began = time.monotonic()
    result = run(executor, ENDLESS, **limits)
    assert time.monotonic() - began < 30
    assert not result.success
    assert result.exit_code is None
    assert result.trapped == trap


def test_files_are_told_relative_to_the_workspace(executor: PhaseExecutor) -> None:
    result = run(executor, WRITES)
    assert "made.txt" in result.files_created
    for path in result.files_created + result.files_modified + result.files_deleted:
        assert not path.startswith("/")
        assert ".." not in path.split("/")


def test_the_manager_records_what_it_says(executor: PhaseExecutor, base: Path) -> None:
    manager = SessionManager(SessionStore(base), executor=executor)
    session = manager.create("tdflow", "red")

    assert manager.run_phase(GOOD).success
    assert not manager.run_phase(RAISES).success
    manager.run_phase(WRITES)

    assert [entry.action for entry in session.history[1:]] == [
        *("phase_succeeded", "phase_failed", "phase_succeeded"),
    ]
    assert "made.txt" in [artifact.path for artifact in session.artifacts]
    assert SessionStore(base).load(session.session_id) == session
