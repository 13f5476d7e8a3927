"""One run of one session, under its lock: which phase comes next, and when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from ...base.cancellation import check_cancelled
from ...base.tracing import Attribute
from ...harness import HarnessError, SessionContext, SessionState
from ...harness.domain.history_events import RetryReason
from ...harness.domain.session_observer import AttemptStarted
from ..errors import (
    AttemptsExhausted,
    NoEarlierPhase,
    NothingToRetry,
    PhaseNotInWorkflow,
    TestsContested,
)
from ..gates.verdict import Verdict
from ..ports import RunOutcome, Stop, StopCause
from ..workflow import Gate, Phase, Script, Workflow
from .phase_attempt import AgentAttempts
from .progress import (
    Progress,
    has_inputs,
    inputs_placed,
    pause_meanwhile,
    phases_passed,
    progress_of,
)
from .run_lock import LedSession
from .run_spans import PhaseSpans
from .script_attempt import ScriptAttempts

if TYPE_CHECKING:
    from ...base.tracing.current import Span

MAX_ROUNDS: Final = 1000
"""The most steps of one run, whatever its workflow allows."""


@frozen(kw_only=True, eq=False)
class WorkflowRun:
    """One run of one session."""

    led: LedSession
    attempts: ScriptAttempts | AgentAttempts
    span: Span

    @property
    def session(self) -> SessionContext:
        """The manager's current session."""
        return self.led.session

    @property
    def workflow(self) -> Workflow:
        """The running workflow."""
        return self.led.job.workflow

    @property
    def phase(self) -> Phase:
        """The current phase.

        Raises:
            PhaseNotInWorkflow: The session was moved to a phase that the workflow lacks.
        """
        found = self.workflow.phase(self.session.current_phase)
        if found is None:
            raise PhaseNotInWorkflow(
                self.session.session_id,
                phase=self.session.current_phase,
                known=self.workflow.names,
            )
        return found

    # ---------------------------------------------------------------------------- the beginning

    def take_up(
        self, *, retry: bool = False, reason: str | None = None, back_to: str | None = None
    ) -> None:
        """Make the session active again; with `retry` at a new attempt, even of an earlier phase.

        Every objection is checked before anything is changed.
        """
        progress = progress_of(self.session)
        phase = self.phase
        if back_to is not None:
            self._require_earlier(back_to)
        elif retry and not progress.failed:
            raise NothingToRetry(self.session.session_id, phase=phase.name)
        stop = self._after_failure(phase, progress) if progress.failed else None
        refusal = None if retry or stop is None else self._undecided(phase, progress)
        refusal = refusal or self.attempts.refusal(phase, progress)
        if refusal is not None:
            if stop is not None and self.session.state is SessionState.ACTIVE:
                # A worker died after recording the failure and before pausing for it.
                self._record(stop)
            raise refusal
        if self.session.state is SessionState.PAUSED:
            self.led.manager.resume()
        if back_to is not None:
            self._begin_again(back_to, reason)
        elif progress.failed and (retry or stop is not None):
            self._again(phase, reason)

    def _require_earlier(self, back_to: str) -> None:
        names = self.workflow.names
        reached = names[: names.index(self.phase.name) + 1]
        if back_to not in reached:
            raise NoEarlierPhase(self.session.session_id, phase=back_to, known=reached)

    def _undecided(self, phase: Phase, progress: Progress) -> HarnessError | None:
        """Return why only a person may start another attempt at a failed phase, or None."""
        session_id = self.session.session_id
        tests = _contested(self.attempts.verdict(progress))
        if tests:
            return TestsContested(
                session_id, phase=phase.name, tests=tests, back_to=self._tests_phase
            )
        if self._exhausted(phase, progress):
            return AttemptsExhausted(
                session_id,
                phase=phase.name,
                attempts=self._attempts_made(phase, progress),
                max_attempts=phase.max_attempts,
            )
        return None

    # --------------------------------------------------------------------------------- the loop

    def go_on(self) -> RunOutcome:
        """Run the remaining phases."""
        with PhaseSpans(self.session.session_id, self.workflow.name) as phases:
            outcome = self._go_on(phases)
        self.span.set(Attribute.SESSION_STATE, outcome.state.value)
        self.span.set(Attribute.STOP_CAUSE, outcome.cause and outcome.cause.value)
        return outcome

    def _go_on(self, phases: PhaseSpans) -> RunOutcome:
        self._place_inputs()
        self.led.observer.budget(self.session.token_budget)
        for _ in range(MAX_ROUNDS):
            check_cancelled()
            phase = self.phase
            progress = progress_of(self.session)
            phases.at(phase.name, progress.round_number)
            if self.session.state is SessionState.PAUSED:
                # It was paused while a phase ran; the phase's result is recorded.
                return self._pause(self._paused_meanwhile(phase, progress))
            stop = None
            if progress.succeeded:
                following = self.workflow.following(phase.name)
                if following is None:
                    self.led.manager.complete()
                    self.led.observer.completed()
                    return outcome_of(self.session, self.workflow, None)
                self.led.manager.advance_phase(following.name)
            elif progress.failed:
                stop = self._after_failure(phase, progress)
                if stop is None:
                    self._again(phase, None)
            else:
                stop = self._attempt(phase, progress)
            if stop is not None:
                return self._pause(stop)
        reason = f"{MAX_ROUNDS} attempts in one run; resume goes on"
        return self._pause(Stop(reason=reason, cause=StopCause.PAUSED))

    def _place_inputs(self) -> None:
        """Put the inputs into the workspace, once: before the first phase runs, never after.

        If a worker dies before this is recorded, the next one repeats it on a workspace that no
        phase has seen.
        """
        inputs = self.led.job.inputs
        if not inputs or has_inputs(self.session):
            return
        self.led.files.place(inputs)
        self.led.manager.record(inputs_placed([one.target for one in inputs]))

    def _attempt(self, phase: Phase, progress: Progress) -> Stop | None:
        stop = self.attempts.hindrance(phase)
        if stop is None:
            names = self.workflow.names
            where = AttemptStarted(
                round_number=progress.round_number,
                position=names.index(phase.name) + 1,
                total=len(names),
            )
            self.led.manager.announce(where)
            self.led.observer.phase_started(
                phase,
                attempt=progress.key.attempt,
                round_number=where.round_number,
                position=where.position,
                total=where.total,
            )
            stop = self.attempts.run(phase, progress)
        return stop

    def _again(self, phase: Phase, reason: str | None) -> None:
        """Start the next attempt: at the phase in `on_failure`, if there is one, or at this one."""
        if phase.on_failure is not None:
            self._enter(phase.on_failure, reason)
            return
        if reason is None and isinstance(phase.gate, Gate):
            verdict = self.attempts.verdict(progress_of(self.session))
            reason = None if verdict is None else verdict.summary
        self.led.manager.retry_phase(reason)

    def _begin_again(self, phase: str, reason: str | None) -> None:
        """Go back to a phase, with its files if a snapshot has them."""
        if not self.led.manager.begin_phase_again(phase):
            self._enter(phase, reason)
        elif reason:
            self.led.manager.record(RetryReason(reason=reason))

    def _enter(self, phase: str, reason: str | None) -> None:
        if reason:
            self.led.manager.record(RetryReason(reason=reason))
        self.led.manager.advance_phase(phase)

    # -------------------------------------------------------------------------------- the stops

    def _after_failure(self, phase: Phase, progress: Progress) -> Stop | None:
        """Return why a failed phase is not retried within this run, or None."""
        verdict = self.attempts.verdict(progress)
        tests = _contested(verdict)
        if tests:
            back_to = self._tests_phase
            return Stop(
                reason=f"phase {phase.name!r} says that no implementation can pass "
                f"{', '.join(tests)}; a person decides: retry --from {back_to} has them written "
                "again, retry keeps them",
                cause=StopCause.PERSON,
                back_to=back_to,
            )
        exhausted = self._exhausted(phase, progress)
        if exhausted or isinstance(phase.gate, Script):
            hindrance = self.attempts.hindrance(phase)
            made = self._attempts_made(phase, progress)
            problem = "its gate was not passed" if verdict is None else verdict.summary
            return Stop(
                reason=f"phase {phase.name!r} failed at attempt {made} of {phase.max_attempts}: "
                f"{problem}; "
                f"{'only retry begins another' if exhausted else 'resume begins the next'} attempt",
                cause=StopCause.FAILED,
                missing_tokens=0 if hindrance is None else hindrance.missing_tokens,
                needs_retry=exhausted,
            )
        if verdict is not None and verdict.facts.get("may_recover") is False:
            return Stop(reason=f"{verdict.summary}, then resume", cause=StopCause.AGENT)
        return None

    def _paused_meanwhile(self, phase: Phase, progress: Progress) -> Stop:
        refusal = self.attempts.refusal(phase, progress)
        return Stop(
            reason=pause_meanwhile(self.session),
            cause=StopCause.PAUSED,
            missing_tokens=0 if refusal is None else refusal.missing,
            needs_retry=progress.failed and self._exhausted(phase, progress),
        )

    @property
    def _tests_phase(self) -> str:
        """The phase that wrote the tests."""
        phases = self.workflow.phases
        names = [one.name for one in phases if one.agents_gate.kind == "tests_fail"]
        return names[0] if names else phases[0].name

    def _attempts_made(self, phase: Phase, progress: Progress) -> int:
        return progress.failures if phase.on_failure else self.session.attempt_number

    def _exhausted(self, phase: Phase, progress: Progress) -> bool:
        return self._attempts_made(phase, progress) >= phase.max_attempts

    def _pause(self, stop: Stop) -> RunOutcome:
        if self.session.state is SessionState.ACTIVE:
            self._record(stop)
        self.led.observer.paused(stop.reason)
        return outcome_of(self.session, self.workflow, stop.reason, stop)

    def _record(self, stop: Stop) -> None:
        self.led.manager.pause(
            stop.reason,
            cause=stop.cause.value,
            question_id=stop.question_id,
            missing_tokens=stop.missing_tokens or None,
            back_to=stop.back_to,
            needs_retry=stop.needs_retry,
        )


def _contested(verdict: Verdict | None) -> tuple[str, ...]:
    """Return the tests that an attempt contests."""
    return () if verdict is None else tuple(verdict.facts.get("contested", ()))


def outcome_of(
    session: SessionContext, workflow: Workflow, reason: str | None, stop: Stop | None = None
) -> RunOutcome:
    """Return the outcome of a session, and why a run of it stopped."""
    progress = progress_of(session)
    done = phases_passed(session)
    attempts: dict[str, int] = {}
    for key in progress.keys:
        attempts[key.phase] = attempts.get(key.phase, 0) + 1
    return RunOutcome(
        session_id=session.session_id,
        state=session.state,
        phases_done=[phase.name for phase in workflow.phases if phase.name in done],
        reason=reason,
        attempts=attempts,
        waiting_for=None if session.state.is_terminal else progress.waiting_for,
        stop=stop,
    )
