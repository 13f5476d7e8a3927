"""What becomes of a phase's result when somebody else saves the session while its code runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    PhaseResult,
    SessionConflict,
    SessionManager,
    SessionState,
    SessionStore,
)


class Meddling:
    """An executor during whose work somebody else leads the session."""

    def __init__(self, base: Path, meddle: Callable[[SessionManager], object]) -> None:
        self._base = base
        self._meddle = meddle

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        other = SessionManager(SessionStore(self._base))
        other.load(session_id)
        self._meddle(other)
        return PhaseResult(success=True, exit_code=0, files_created=("a.py",))


def manager_with(base: Path, meddle: Callable[[SessionManager], object]) -> SessionManager:
    manager = SessionManager(SessionStore(base), executor=Meddling(base, meddle))
    manager.create("tdflow", "red", 1000)
    return manager


def actions(manager: SessionManager) -> list[str]:
    session = manager.current_session
    assert session is not None
    assert manager.store.load(session.session_id) == session
    return [entry.action for entry in session.history]


def test_a_budget_extended_meanwhile_is_kept_and_the_result_recorded_on_top(tmp_path: Path) -> None:
    manager = manager_with(tmp_path, lambda other: other.extend_budget(500))
    session = manager.current_session

    assert manager.run_phase("pass", tokens=10).success

    assert manager.current_session is session, "the session that a caller holds stays current"
    assert session is not None
    assert session.token_budget.total_budget == 1500
    assert session.token_budget.tokens_used == 10
    assert [artifact.path for artifact in session.artifacts] == ["a.py"]
    assert actions(manager) == ["session_created", "budget_extended", "phase_succeeded"]


def test_a_session_paused_meanwhile_gets_its_result_and_stays_paused(tmp_path: Path) -> None:
    manager = manager_with(tmp_path, lambda other: other.pause("lunch"))

    assert manager.run_phase("pass").success

    assert actions(manager) == ["session_created", "session_paused", "phase_succeeded"]
    assert manager.current_session is not None
    assert manager.current_session.state is SessionState.PAUSED


@pytest.mark.parametrize(
    "meddle",
    [
        pytest.param(lambda other: other.abort("enough"), id="aborted"),
        pytest.param(lambda other: other.complete(), id="completed"),
        pytest.param(lambda other: other.advance_phase("green"), id="taken to another phase"),
        pytest.param(lambda other: other.retry_phase(), id="taken to another attempt"),
        pytest.param(
            lambda other: other.store.delete(other.current_session.session_id), id="deleted"
        ),
    ],
)
def test_a_result_that_belongs_nowhere_any_more_is_a_conflict_and_not_recorded(
    tmp_path: Path, meddle: Callable[[SessionManager], object]
) -> None:
    manager = manager_with(tmp_path, meddle)

    with pytest.raises(SessionConflict):
        manager.run_phase("pass", tokens=10)

    session = manager.current_session
    assert session is not None
    assert [entry.action for entry in session.history] == ["session_created"]
    assert session.token_budget.tokens_used == 0


def test_a_result_recorded_by_another_worker_is_not_recorded_twice(tmp_path: Path) -> None:
    class Quick:
        def execute(self, code: str, **_: object) -> PhaseResult:
            return PhaseResult(success=True, exit_code=0)

    def run_it_too(other: SessionManager) -> None:
        second = SessionManager(other.store, executor=Quick())
        assert other.current_session is not None
        second.load(other.current_session.session_id)
        second.run_phase("pass")

    manager = manager_with(tmp_path, run_it_too)

    with pytest.raises(SessionConflict):
        manager.run_phase("pass")

    session = manager.reload()
    assert [entry.action for entry in session.history].count("phase_succeeded") == 1
