"""One attempt at a script's phase: run the script in the workspace, judge, record."""

from __future__ import annotations

from attrs import frozen

from ...harness import PhaseResult, PhaseWaits, SessionState
from ..errors import BudgetTooSmall
from ..gates.verdict import Verdict
from ..ports import Stop, StopCause
from ..workflow import Phase, Script
from .progress import Progress, last_problem
from .run_lock import LedSession


@frozen(eq=False)
class ScriptAttempts:
    """Runs attempts at the phases of one session, under its lock.

    The code runs at least once, and its result is recorded exactly once: a worker that is killed in
    between leaves the attempt without a result, and the next worker runs it again. Code that waits
    stops the run, and the next worker goes on at its line.
    """

    led: LedSession

    def hindrance(self, phase: Phase) -> Stop | None:
        """Return why an attempt can't start with the remaining budget, or None."""
        budget = self.led.budget
        if budget.can_continue(phase.tokens):
            return None
        missing = phase.tokens - budget.tokens_remaining
        return Stop(
            reason=f"phase {phase.name!r} needs {phase.tokens:,} tokens, and of "
            f"{budget.total_budget:,} {budget.tokens_remaining:,} are left; extend the budget by "
            f"{missing:,} or more, then resume",
            cause=StopCause.BUDGET,
            missing_tokens=missing,
        )

    def refusal(self, phase: Phase, progress: Progress) -> BudgetTooSmall | None:
        """Return why the budget does not allow resuming the session, or None."""
        if self.led.session.state is SessionState.ACTIVE and not progress.failed:
            return None  # its worker died; the run pauses it if the budget is too small
        nearest = self.led.job.workflow.following(phase.name) if progress.succeeded else phase
        if nearest is None or self.hindrance(nearest) is None:
            return None
        return BudgetTooSmall(
            self.led.session.session_id,
            phase=nearest.name,
            required=nearest.tokens,
            remaining=self.led.budget.tokens_remaining,
        )

    def verdict(self, progress: Progress) -> Verdict | None:
        """Return the verdict on the current attempt, if there is one."""
        if progress.succeeded:
            return _verdict(None)
        if not progress.failed:
            return None
        return _verdict(last_problem(self.led.session) or "its worker ended before it could pause")

    def run(self, phase: Phase, progress: Progress) -> Stop | None:
        """Run the script, or go on with it, and record its result."""
        del progress
        script = phase.gate
        assert isinstance(script, Script)  # noqa: S101 (`Workflow` rejects others here)
        problem: str | None = None

        def judge(result: PhaseResult) -> str | None:
            nonlocal problem
            problem = self._problem(script, result)
            return problem

        try:
            result = self.led.manager.run_phase(
                script.code,
                tokens=phase.tokens,
                deadline_s=script.deadline_s,
                fuel=script.fuel,
                judge=judge,
            )
        except PhaseWaits as waits:
            return stop_until(phase, waits)
        self.led.observer.phase_finished(phase, _verdict(problem, result.duration_s), result)
        self.led.observer.budget(self.led.budget)
        return None

    def _problem(self, script: Script, result: PhaseResult) -> str | None:
        """Return why a result is no success, or None."""
        limits = result.limit_problems()
        if result.trapped is not None:
            return ", ".join(limits)
        problems = []
        if result.exit_code != script.exit_code:
            problems.append(f"exit code {result.exit_code}, expected {script.exit_code}")
        problems += self.led.files.missing(script.artifacts)
        return ", ".join(problems + limits) if problems or result.lost_writes else None


def stop_until(phase: Phase, waits: PhaseWaits) -> Stop:
    """Return the stop of a phase whose code waits."""
    return Stop(
        reason=f"phase {phase.name!r} waits {waits.awaited}; then resume",
        cause=StopCause.PERSON if waits.question_ids else StopCause.TIME,
        question_id=next(iter(waits.question_ids), None),
        wake_at=waits.wake_at,
    )


def _verdict(problem: str | None, duration_s: float = 0.0) -> Verdict:
    return Verdict(
        gate="script",
        passed=problem is None,
        summary=problem or "it ended as expected",
        duration_s=duration_s,
    )
