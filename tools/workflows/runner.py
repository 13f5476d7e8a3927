"""Runs workflows: one phase after the other, in a session that outlives its worker.

All that a run knows stands in the session: which phase it is in, whether that phase's current
attempt has a result, how many attempts there were. A worker that goes on with a session asks only
that. So it makes no difference whether the one before ended well, was paused or was killed, and
between which two saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from attrs import frozen

from ..durable import FileSystem, OsFileSystem
from ..harness import PhaseResult, SessionContext, SessionManager, SessionState
from ..harness.history_events import PhaseFailed, PhaseRetried, PhaseSucceeded
from .errors import (
    AttemptsExhausted,
    BudgetTooSmall,
    NotAWorkflowSession,
    NothingToRetry,
)
from .history import BEGINNINGS, has_inputs, inputs_placed, phases_passed, told_pause
from .run_lock import leading, require_open
from .run_observer import RunObserver, SilentObserver
from .run_outcome import RunOutcome, StopCause
from .workflow_document import SNAPSHOT_NAME, Phase, Workflow
from .workspace_files import missing_artifacts, place_inputs


class _Standing(Enum):
    """What the history says of the current attempt."""

    OPEN = "no result is recorded"
    SUCCEEDED = "it succeeded"
    FAILED = "it failed"


class WorkflowRunner:
    """Runs and resumes workflows through one manager.

    Guarantees: a phase whose success is recorded is never run again; a phase runs only when all
    before it have succeeded; a failed phase is run again only when a caller says so (`resume` or
    `retry`); of one session at most one runner runs phases at a time, on one machine. The code of
    a phase whose worker was killed before the result was on disk runs again: it runs at least
    once, its result is recorded exactly once.

    When a call raises, the session can be resumed, unless the error says that it has ended or is
    gone.
    """

    def __init__(
        self,
        manager: SessionManager,
        observer: RunObserver | None = None,
        *,
        fs: FileSystem | None = None,
        lock_timeout_s: float = 0.5,
    ) -> None:
        """Make a runner.

        Args:
            manager: Leads the sessions; it needs a phase executor whose code sees
                `manager.store.workspace_path(session_id)`.
            observer: Is told what happens; nobody by default.
            fs: The file system of the workspace; the real one by default.
            lock_timeout_s: How long to wait for another worker that is just ending, in seconds.
        """
        self._manager = manager
        self._observer: RunObserver = observer if observer is not None else SilentObserver()
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._lock_timeout_s = lock_timeout_s

    # ---------------------------------------------------------------------------- the three words

    def start(self, workflow: Workflow) -> RunOutcome:
        """Begin a session for a workflow and run it.

        Args:
            workflow: What to run. A copy of it goes into the session.

        Returns:
            How it ended: completed, or paused because a phase failed or the budget is too small.

        Raises:
            InvalidWorkflow: It was built by hand and breaks the rules of the file; nothing was
                begun.
            SessionAlreadyActive: The manager leads a session that has not ended.
            NoPhaseExecutor: The manager can't run phases; the session was begun.
            SessionConflict: While a phase ran, somebody else ended the session or led it to
                another phase or attempt; the phase's result was not recorded. (What a pause or an
                extended budget changed meanwhile is kept, and the result is recorded on top.)
            WriteError: The disk or its permissions.
            KeyboardInterrupt: As it came; what was running is not recorded.
        """
        snapshot = workflow.to_snapshot()
        workflow = Workflow.from_snapshot(snapshot, Path(SNAPSHOT_NAME))
        session = self._manager.create(
            workflow.workflow_type,
            workflow.phases[0].name,
            workflow.token_budget,
            goal=workflow.goal,
            attachments={SNAPSHOT_NAME: snapshot},
        )
        self._observer.run_started(session.session_id, workflow, resumed=False)
        with self._leading(session.session_id, "run") as run:
            return run.go_on()

    def resume(self, session_id: str) -> RunOutcome:
        """Go on with a session that was begun by `start`, whatever became of its worker.

        A paused session becomes active. Phases that succeeded are not repeated; a phase that has
        no result runs (again) as the same attempt; a phase that failed begins its next attempt.

        Args:
            session_id: The session.

        Returns:
            How it ended.

        Raises:
            InvalidSessionId: It is no id.
            SessionNotFound: There is no such session.
            InvalidStateTransition: It has ended.
            NotAWorkflowSession: No workflow began it.
            AlreadyRunning: Another worker runs it.
            PhaseNotInWorkflow: It was led into a phase that the workflow does not have.
            AttemptsExhausted: Its phase failed as often as the workflow allows; it stays paused.
            BudgetTooSmall: It is paused, and what is left does not cover its next phase; it stays
                paused.
            SessionConflict: See `start`; so are the other errors.
        """
        with self._leading(session_id, "resume") as run:
            run.take_up()
            self._observer.run_started(session_id, run.workflow, resumed=True)
            return run.go_on()

    def retry(self, session_id: str, reason: str | None = None) -> RunOutcome:
        """Begin another attempt at a session's failed phase, beyond the workflow's limit too.

        Args:
            session_id: The session.
            reason: What is different this time; it goes into the history.

        Returns:
            How it ended.

        Raises:
            NothingToRetry: The session's current phase has not failed.
            BudgetTooSmall: What is left does not cover the phase; it stays paused.
            SessionNotFound: See `resume`; so are the other errors.
        """
        with self._leading(session_id, "retry") as run:
            run.take_up(retry=True, reason=reason)
            self._observer.run_started(session_id, run.workflow, resumed=True)
            return run.go_on()

    # ------------------------------------------------------------------------------------ helpers

    @contextmanager
    def _leading(self, session_id: str, operation: str) -> Iterator[_Run]:
        manager = self._manager
        require_open(manager, session_id, manager.store.load(session_id), operation)
        workflow = self._workflow(session_id)
        with leading(
            manager,
            session_id,
            operation,
            lock_name=SNAPSHOT_NAME,
            phases=[phase.name for phase in workflow.phases],
            fs=self._fs,
            lock_timeout_s=self._lock_timeout_s,
        ) as led:
            yield _Run(
                manager=manager,
                observer=self._observer,
                fs=self._fs,
                session=led.session,
                workflow=workflow,
                workspace=led.workspace,
                workspace_fd=led.workspace_fd,
            )

    def _workflow(self, session_id: str) -> Workflow:
        store = self._manager.store
        data = store.read_attachment(session_id, SNAPSHOT_NAME)
        if data is None:
            raise NotAWorkflowSession(session_id)
        path = store.session_path(session_id).with_name(SNAPSHOT_NAME)
        return Workflow.from_snapshot(data, path)


@frozen(kw_only=True, eq=False)
class _Run:
    """One run of one session, under its lock."""

    manager: SessionManager
    observer: RunObserver
    fs: FileSystem
    session: SessionContext
    workflow: Workflow
    workspace: Path
    workspace_fd: int

    # ---------------------------------------------------------------------- what the session says

    @property
    def position(self) -> int:
        """Return where the current phase stands in the workflow, from 0."""
        names = [phase.name for phase in self.workflow.phases]
        return names.index(self.session.current_phase or "")

    @property
    def phase(self) -> Phase:
        return self.workflow.phases[self.position]

    @property
    def standing(self) -> _Standing:
        """Return what is recorded of the current attempt, which is all since it began."""
        for entry in reversed(self.session.history):
            kind = entry.event_type
            if entry.phase == self.session.current_phase:
                if kind is PhaseSucceeded:
                    return _Standing.SUCCEEDED
                if kind is PhaseFailed:
                    return _Standing.FAILED
            if kind in BEGINNINGS:
                break
        return _Standing.OPEN

    def _following(self) -> Phase | None:
        position = self.position + 1
        return self.workflow.phases[position] if position < len(self.workflow.phases) else None

    # ----------------------------------------------------------------------------------- the steps

    def take_up(self, *, retry: bool = False, reason: str | None = None) -> None:
        """Make the session active again, with a new attempt if its phase failed.

        All that speaks against it is looked at before anything is changed.
        """
        standing = self.standing
        phase = self.phase
        session_id = self.session.session_id
        if standing is not _Standing.FAILED:
            if retry:
                raise NothingToRetry(session_id, phase=phase.name)
            if self.session.state is SessionState.PAUSED:
                nearest = self._following() if standing is _Standing.SUCCEEDED else phase
                if nearest is not None:
                    self._require_budget(nearest)
                self.manager.resume()
            return
        try:
            if not retry:
                self._require_attempt(phase)
            self._require_budget(phase)
        except (AttemptsExhausted, BudgetTooSmall):
            if self.session.state is SessionState.ACTIVE:
                # A worker died between recording the failure and pausing for it.
                told = self._failure(phase, "its worker ended before it could pause")
                self.manager.pause(told, cause=StopCause.FAILED.value)
            raise
        if self.session.state is SessionState.PAUSED:
            self.manager.resume()
        self.manager.retry_phase(reason)

    def go_on(self) -> RunOutcome:
        """Run what is left."""
        self._place_inputs()
        self.observer.budget(self.session.token_budget)
        while True:
            phase = self.phase
            if self.session.state is SessionState.PAUSED:
                # Somebody paused it while a phase ran; the phase's result is recorded.
                return self._outcome(self._told_pause(), StopCause.PAUSED)
            if self.standing is _Standing.SUCCEEDED:
                following = self._following()
                if following is None:
                    self.manager.complete()
                    self.observer.completed()
                    return self._outcome(None)
                self.manager.advance_phase(following.name)
                continue
            if not self.manager.can_continue(phase.tokens):
                return self._pause(self._too_small(phase), StopCause.BUDGET)
            problem = self._run_phase(phase)
            if problem is not None and self.session.state is SessionState.ACTIVE:
                return self._pause(self._failure(phase, problem), StopCause.FAILED)

    def _run_phase(self, phase: Phase) -> str | None:
        """Run a phase, have its result recorded, and return why it is no success."""
        problem: str | None = None

        def judge(result: PhaseResult) -> str | None:
            nonlocal problem
            problem = self._judge(phase, result)
            return problem

        self.observer.phase_started(
            phase,
            attempt=self.session.attempt_number,
            position=self.position + 1,
            total=len(self.workflow.phases),
        )
        result = self.manager.run_phase(
            phase.code,
            tokens=phase.tokens,
            deadline_s=phase.deadline_s,
            fuel=phase.fuel,
            judge=judge,
        )
        self.observer.phase_finished(phase, result, problem)
        self.observer.budget(self.session.token_budget)
        return problem

    def _judge(self, phase: Phase, result: PhaseResult) -> str | None:
        """Say why a result is no success, or None."""
        limits = result.limit_problems()
        if result.trapped is not None:
            return ", ".join(limits)
        problems = []
        if result.exit_code != phase.exit_code:
            problems.append(f"exit code {result.exit_code}, expected {phase.exit_code}")
        problems += missing_artifacts(
            self.fs, self.workspace_fd, phase.artifacts, root=self.workspace
        )
        return ", ".join(problems + limits) if problems or result.lost_writes else None

    def _place_inputs(self) -> None:
        """Put the inputs into the workspace, once: before the first phase runs, never after.

        A worker that dies before this is recorded leaves it to the next one, which does it again
        on a workspace that no phase has seen.
        """
        inputs = self.workflow.inputs
        if not inputs or has_inputs(self.session):
            return
        place_inputs(self.fs, self.workspace_fd, inputs, root=self.workspace)
        self.manager.record(inputs_placed([one.target for one in inputs]))

    def _require_attempt(self, phase: Phase) -> None:
        if self.session.attempt_number >= phase.max_attempts:
            raise AttemptsExhausted(
                self.session.session_id,
                phase=phase.name,
                attempts=self.session.attempt_number,
                max_attempts=phase.max_attempts,
            )

    def _require_budget(self, phase: Phase) -> None:
        budget = self.session.token_budget
        if not budget.can_continue(phase.tokens):
            raise BudgetTooSmall(
                self.session.session_id,
                phase=phase.name,
                required=phase.tokens,
                remaining=budget.tokens_remaining,
            )

    def _failure(self, phase: Phase, problem: str) -> str:
        attempt = self.session.attempt_number
        next_one = (
            "resume begins the next attempt"
            if attempt < phase.max_attempts
            else "only retry begins another attempt"
        )
        return (
            f"phase {phase.name!r} failed at attempt {attempt} of {phase.max_attempts}: "
            f"{problem}; {next_one}"
        )

    def _too_small(self, phase: Phase) -> str:
        budget = self.session.token_budget
        missing = phase.tokens - budget.tokens_remaining
        return (
            f"phase {phase.name!r} needs {phase.tokens:,} tokens, and of {budget.total_budget:,} "
            f"{budget.tokens_remaining:,} are left; extend the budget by {missing:,} or more, "
            "then resume"
        )

    def _told_pause(self) -> str:
        told = told_pause(self.session)
        self.observer.paused(told)
        return told

    def _pause(self, reason: str, cause: StopCause) -> RunOutcome:
        self.manager.pause(reason, cause=cause.value)
        self.observer.paused(reason)
        return self._outcome(reason, cause)

    def _outcome(self, reason: str | None, cause: StopCause | None = None) -> RunOutcome:
        session = self.session
        done = phases_passed(session)
        begun = [phase.name for phase in self.workflow.phases[: self.position + 1]]
        retries = [one.phase for one in session.history if one.event_type is PhaseRetried]
        return RunOutcome(
            session_id=session.session_id,
            state=session.state,
            phases_done=[phase.name for phase in self.workflow.phases if phase.name in done],
            reason=reason,
            attempts={name: 1 + retries.count(name) for name in begun},
            cause=cause,
        )
