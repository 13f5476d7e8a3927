"""What a run does when somebody else changes its session while a phase runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentforge_sessions.harness import PhaseResult, SessionManager, SessionState, SessionStore
from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner


class Meddling:
    """An executor during whose first work somebody else leads the session."""

    def __init__(self, base: Path, meddle: Callable[[SessionManager], object]) -> None:
        self._base = base
        self._meddle: Callable[[SessionManager], object] | None = meddle
        self.codes: list[str] = []

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        self.codes.append(code)
        if self._meddle is not None:
            other = SessionManager(SessionStore(self._base))
            other.load(session_id)
            self._meddle(other)
            self._meddle = None
        failed = "fail" in code
        return PhaseResult(success=not failed, exit_code=int(failed))


def workflow(*codes: str) -> Workflow:
    phases = [Phase(name=f"p{index}", gate=Script(code=code)) for index, code in enumerate(codes)]
    return Workflow(name="w", workflow_type="spec", phases=phases)


def test_a_run_paused_by_a_person_keeps_the_result_and_goes_on_with_the_next_phase_later(
    tmp_path: Path,
) -> None:
    executor = Meddling(tmp_path, lambda other: other.pause("lunch"))
    manager = SessionManager(SessionStore(tmp_path), executor=executor)

    outcome = WorkflowRunner(manager).start(workflow("first", "second"))

    assert outcome.state is SessionState.PAUSED
    assert outcome.phases_done == ("p0",)
    assert outcome.reason == "paused while it ran: lunch"
    assert executor.codes == ["first"]

    manager.release()
    outcome = WorkflowRunner(manager).resume(outcome.session_id)

    assert outcome.state is SessionState.COMPLETED
    assert executor.codes == ["first", "second"]


def test_a_run_whose_budget_is_extended_meanwhile_loses_nothing(tmp_path: Path) -> None:
    executor = Meddling(tmp_path, lambda other: other.extend_budget(5))
    manager = SessionManager(SessionStore(tmp_path), executor=executor)

    outcome = WorkflowRunner(manager).start(workflow("first", "second"))

    assert outcome.state is SessionState.COMPLETED
    assert executor.codes == ["first", "second"]


def test_a_phase_that_failed_while_a_person_paused_the_run_is_told_as_failed(
    tmp_path: Path,
) -> None:
    executor = Meddling(tmp_path, lambda other: other.pause("lunch"))
    manager = SessionManager(SessionStore(tmp_path), executor=executor)

    outcome = WorkflowRunner(manager).start(workflow("fail"))

    assert outcome.state is SessionState.PAUSED
    session = manager.store.load(outcome.session_id)
    assert session is not None
    assert [entry.action for entry in session.history][-2:] == ["session_paused", "phase_failed"]
