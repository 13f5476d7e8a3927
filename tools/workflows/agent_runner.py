"""Runs an agent's work: one loop that brings prompt, answer, files, gate and record together.

The way of the data, and what is durable where:

1. The prompt is made from the session, the specification and the workspace; it is stored.
2. The budget is looked at. The agent is asked. Its answer is stored before anything is done with
   it; then its tokens are recorded in the session (`agent_answered`).
3. The answer is taken apart. What it asks goes to the person, and the agent is asked again with
   the answers. What it writes is applied to the workspace: whole files, the same however often.
4. The gate judges a copy of the workspace's files, in the sandbox. The verdict is stored, then
   recorded in the session with its evidence, its duration and the files (`phase_succeeded` or
   `phase_failed`), in one save.
5. The workflow goes on to the next phase, back to an earlier one, tries again, or pauses.

A worker that comes after a kill finds by the session's history which attempt it is, and by the
stored steps how far that attempt came. So an agent is never asked again for an answer that was
stored, a verdict is never made twice, and no phase that was passed is repeated. An agent that was
killed while it thought is asked again, with the same prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from attrs import frozen

from ..durable import FileSystem, OsFileSystem
from ..harness import (
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionState,
)
from ..harness.history_events import RetryReason
from .agent_observer import AgentObserver, SilentAgentObserver
from .agent_workflow import AgentPhase, AgentWorkflow
from .agents.port import AgentChoice, PhaseAgent
from .component_files import apply_files, read_workspace
from .errors import (
    AttemptsExhausted,
    BudgetTooSmall,
    NoAgent,
    NoEarlierPhase,
    NothingToRetry,
    PhaseNotInWorkflow,
    TestsContested,
)
from .gate_port import GateSandbox
from .history import has_inputs, inputs_placed, phases_passed, told_pause, why_stopped
from .job import WORKFLOW_NAME, AgentWork, Ground
from .phase_attempt import PhaseRun, Waiting
from .progress import Standing, standing_of
from .run_lock import leading, require_open
from .run_outcome import RunOutcome, StopCause
from .step_journal import StepStore

MAX_ROUNDS: Final = 1000
"""How many attempts one run goes through at most, whatever its workflow allows."""


class AgentRunner:
    """Runs and resumes the work of agents through one manager.

    Guarantees: see the module. Of one session at most one runner runs phases at a time, on one
    machine. When a call raises, the session can be resumed, unless the error says that it has
    ended or is gone.
    """

    def __init__(
        self,
        manager: SessionManager,
        gates: GateSandbox,
        *,
        agents: Callable[[AgentChoice], PhaseAgent] | None = None,
        observer: AgentObserver | None = None,
        fs: FileSystem | None = None,
        lock_timeout_s: float = 0.5,
        answers_timeout_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a runner.

        Args:
            manager: Leads the sessions, and asks a person; if it has no desk, a run pauses where
                one is needed.
            gates: Where gates run.
            agents: Makes the agent that a session names, for `resume` and `retry`.
            observer: Is told what happens; nobody by default.
            fs: The file system of the workspace and the steps; the real one by default.
            lock_timeout_s: How long to wait for another worker that is just ending, in seconds.
            answers_timeout_s: How long to wait for a person's answers before the session pauses
                for them, in seconds.
            monotonic: The clock that agents are timed with.
        """
        self._manager = manager
        self._gates = gates
        self._agents = agents
        self._observer: AgentObserver = observer if observer is not None else SilentAgentObserver()
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()
        self._lock_timeout_s = lock_timeout_s
        self._answers_timeout_s = answers_timeout_s
        self._monotonic = monotonic

    def start(
        self, work: AgentWork, agent: PhaseAgent, *, token_budget: int | None = None
    ) -> RunOutcome:
        """Begin a session for a piece of work and run it.

        A worker that is killed while this runs takes the session's id with it, unless the
        observer kept it; `begin` gives the id first.

        Args:
            work: What is to be done; a copy of it goes into the session.
            agent: Who does it.
            token_budget: Tokens allotted; the workflow's if None.

        Returns:
            How it ended: completed, or paused with the reason.

        Raises:
            InvalidWorkflow: The work breaks its rules; nothing was begun.
            InvalidSpecification: Its specification is none; nothing was begun.
            UnknownComponent: The specification has no such component; nothing was begun.
            SessionAlreadyActive: The manager leads a session that has not ended.
            GateUnavailable: Gates can't run on this machine; nothing was begun.
            SessionConflict: Meanwhile somebody else ended the session or led it elsewhere.
            WriteError: The disk or its permissions.
        """
        session_id = self._create(work, token_budget)
        self._observer.run_started(session_id, work, resumed=False)
        with self._leading(session_id, "run", agent) as run:
            return run.go_on()

    def begin(self, work: AgentWork, *, token_budget: int | None = None) -> str:
        """Begin a session for a piece of work and run nothing of it; `resume` does.

        For a caller that has to keep the session's id in a place of its own before any work is
        done, so that it finds the session again whatever happens then. Nobody is asked anything:
        a session that was begun and forgotten has cost nothing but its directory.

        Args:
            work: What is to be done; a copy of it goes into the session.
            token_budget: Tokens allotted; the workflow's if None.

        Returns:
            The session's id; the session is active and on disk.

        Raises:
            InvalidWorkflow: See `start`; so are the other errors.
        """
        session_id = self._create(work, token_budget)
        self._manager.release()
        return session_id

    def outcome(self, session_id: str) -> RunOutcome:
        """Tell where a session stands, as `start` and `resume` do of one that they have run.

        Nothing is run or changed and no lock is taken: another worker may be at it, and then what
        is told is what it saved last. A session that is active may be run by one, or have lost
        the one that ran it; `resume` finds out.

        Args:
            session_id: The session.

        Raises:
            SessionNotFound: There is no such session.
            NotAWorkflowSession: No agent's work began it.
        """
        store = self._manager.store
        session = store.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=store.base_path)
        work = AgentWork.of_session(store, session_id)
        return _outcome(session, work.workflow, why_stopped(session))

    def resume(self, session_id: str, agent: PhaseAgent | None = None) -> RunOutcome:
        """Go on with a session that was begun by `start`, whatever became of its worker.

        Args:
            session_id: The session.
            agent: Who goes on with it; the one that the session names if None.

        Raises:
            SessionNotFound: There is no such session.
            InvalidStateTransition: It has ended.
            NotAWorkflowSession: No agent's work began it.
            AlreadyRunning: Another worker runs it.
            PhaseNotInWorkflow: It was led into a phase that the workflow does not have.
            AttemptsExhausted: Its phase failed as often as the workflow allows.
            TestsContested: Its phase contests tests, and a person has to decide.
            BudgetTooSmall: Nothing is left of its budget.
            NoAgent: It names no agent, and none was given.
        """
        with self._leading(session_id, "resume", agent) as run:
            run.take_up()
            self._observer.run_started(session_id, run.ground.work, resumed=True)
            return run.go_on()

    def retry(
        self,
        session_id: str,
        reason: str | None = None,
        agent: PhaseAgent | None = None,
        *,
        back_to: str | None = None,
    ) -> RunOutcome:
        """Begin another attempt at a session's failed phase, beyond the workflow's limit too.

        With `back_to` the session goes back to that phase instead, failed or not: what was found
        wrong since it was passed is in its next prompt, and the phases after it follow anew.

        Args:
            session_id: The session.
            reason: What is different this time; it goes into the history and the next briefing.
            agent: Who goes on with it; the one that the session names if None.
            back_to: The phase to go back to, of those that the session has been in.

        Raises:
            NothingToRetry: The session's current phase has not failed.
            NoEarlierPhase: It can't go back to that phase.
            SessionNotFound: See `resume`; so are the other errors.
        """
        with self._leading(session_id, "retry", agent) as run:
            run.take_up(retry=True, reason=reason, back_to=back_to)
            self._observer.run_started(session_id, run.ground.work, resumed=True)
            return run.go_on()

    # ------------------------------------------------------------------------------------ helpers

    def _create(self, work: AgentWork, token_budget: int | None) -> str:
        ground = Ground.of(work)
        workflow = work.workflow
        self._gates.prepare(kit=workflow.needs_pytest)
        goal = workflow.goal or workflow.name
        if ground.component is not None and ground.specification is not None:
            goal = f"{goal} Component {work.name} of {ground.specification.title}."
        elif work.subject:
            goal = f"{goal} {work.name}: {' '.join(work.subject.split())[:1500]}"
        session = self._manager.create(
            workflow.workflow_type,
            workflow.phases[0].name,
            workflow.token_budget if token_budget is None else token_budget,
            goal=goal,
            attachments=work.attachments(),
        )
        return session.session_id

    @contextmanager
    def _leading(self, session_id: str, operation: str, agent: PhaseAgent | None) -> Iterator[_Run]:
        manager = self._manager
        store = manager.store
        require_open(manager, session_id, store.load(session_id), operation)
        ground = Ground.of(AgentWork.of_session(store, session_id))
        self._gates.prepare(kit=ground.work.workflow.needs_pytest)
        if agent is None:
            agent = self._named_agent(session_id, ground.work)
        with leading(
            manager,
            session_id,
            operation,
            lock_name=WORKFLOW_NAME,
            phases=[phase.name for phase in ground.work.workflow.phases],
            fs=self._fs,
            lock_timeout_s=self._lock_timeout_s,
        ) as led:
            yield _Run(
                manager=manager,
                observer=self._observer,
                session=led.session,
                ground=ground,
                phases=PhaseRun(
                    manager=manager,
                    observer=self._observer,
                    session=led.session,
                    ground=ground,
                    agent=agent,
                    gates=self._gates,
                    answers_timeout_s=self._answers_timeout_s,
                    monotonic=self._monotonic,
                    fs=self._fs,
                    steps=StepStore(self._fs, store.session_path(session_id).parent),
                    workspace=led.workspace,
                    workspace_fd=led.workspace_fd,
                ),
            )

    def _named_agent(self, session_id: str, work: AgentWork) -> PhaseAgent:
        if work.agent is None or self._agents is None:
            raise NoAgent(session_id)
        return self._agents(work.agent)


@frozen(kw_only=True, eq=False)
class _Run:
    """One run of one session, under its lock: which phase comes next, and when to stop."""

    manager: SessionManager
    observer: AgentObserver
    session: SessionContext
    ground: Ground
    phases: PhaseRun

    @property
    def phase(self) -> AgentPhase:
        found = self.ground.work.workflow.phase(self.session.current_phase)
        if found is None:
            raise PhaseNotInWorkflow(
                self.session.session_id,
                phase=self.session.current_phase,
                known=[phase.name for phase in self.ground.work.workflow.phases],
            )
        return found

    def take_up(
        self, *, retry: bool = False, reason: str | None = None, back_to: str | None = None
    ) -> None:
        """Make the session active again; with `retry`, at a new attempt, of an earlier phase too.

        All that speaks against it is looked at before anything is changed.
        """
        standing = standing_of(self.session)
        phase = self.phase
        if back_to is not None:
            self._require_earlier(back_to)
        elif retry and not standing.failed:
            raise NothingToRetry(self.session.session_id, phase=phase.name)
        contested = self._contested(standing)
        if contested and not retry:
            if self.session.state is SessionState.ACTIVE:
                self.manager.pause(self._contest(phase, contested), cause=StopCause.PERSON.value)
            raise TestsContested(
                self.session.session_id,
                phase=phase.name,
                tests=contested,
                back_to=self._tests_phase,
            )
        if standing.failed and not retry and self._exhausted(phase, standing):
            if self.session.state is SessionState.ACTIVE:
                # A worker died between recording the failure and pausing for it.
                self.manager.pause(self._failure(phase, standing), cause=StopCause.FAILED.value)
            raise AttemptsExhausted(
                self.session.session_id,
                phase=phase.name,
                attempts=standing.failures if phase.on_failure else self.session.attempt_number,
                max_attempts=phase.max_attempts,
            )
        if phase.prompt is not None and not standing.succeeded:
            budget = self.session.token_budget
            if self.session.state is SessionState.PAUSED and budget.is_exhausted:
                expected = self.phases.expected_cost(phase, standing)
                raise BudgetTooSmall(
                    self.session.session_id,
                    phase=phase.name,
                    required=expected,
                    remaining=budget.tokens_remaining,
                    missing=self.phases.missing(phase, standing, expected),
                )
        if self.session.state is SessionState.PAUSED:
            self.manager.resume()
        if back_to is not None:
            if reason:
                self.manager.record(RetryReason(reason=reason))
            self.manager.advance_phase(back_to)
        elif standing.failed and (retry or self._hopeless(standing)):
            self._again(phase, reason)

    def _require_earlier(self, back_to: str) -> None:
        names = [phase.name for phase in self.ground.work.workflow.phases]
        reached = names[: names.index(self.phase.name) + 1]
        if back_to not in reached:
            raise NoEarlierPhase(self.session.session_id, phase=back_to, known=reached)

    def _contested(self, standing: Standing) -> tuple[str, ...]:
        """Return the tests that the current attempt contests."""
        verdict = self.phases.last_verdict(standing) if standing.failed else None
        return () if verdict is None else tuple(verdict.facts.get("contested", ()))

    def _hopeless(self, standing: Standing) -> bool:
        """Whether the failed attempt would fail again if the agent were asked as before."""
        verdict = self.phases.last_verdict(standing)
        return verdict is not None and verdict.facts.get("may_recover") is False

    @property
    def _tests_phase(self) -> str:
        """The phase that wrote the tests."""
        phases = self.ground.work.workflow.phases
        return next((one.name for one in phases if one.gate.kind == "tests_fail"), phases[0].name)

    def _contest(self, phase: AgentPhase, tests: Sequence[str]) -> str:
        return (
            f"phase {phase.name!r} says that no implementation can pass {', '.join(tests)}; a "
            f"person decides: retry --from {self._tests_phase} has them written again, retry "
            "keeps them"
        )

    def go_on(self) -> RunOutcome:  # noqa: PLR0911 (an end each)
        """Run what is left."""
        self._place_inputs()
        self.observer.budget(self.session.token_budget)
        for _ in range(MAX_ROUNDS):
            if self.session.state is SessionState.PAUSED:
                # Somebody paused it while a phase ran; what the phase gave is recorded.
                return self._told_pause()
            phase = self.phase
            standing = standing_of(self.session)
            if standing.succeeded:
                following = self.ground.work.workflow.following(phase.name)
                if following is None:
                    self.manager.complete()
                    self.observer.completed()
                    return self._told(None)
                self.manager.advance_phase(following.name)
            elif standing.failed:
                contested = self._contested(standing)
                if contested:
                    return self._pause(self._contest(phase, contested), StopCause.PERSON)
                if self._exhausted(phase, standing):
                    return self._pause(self._failure(phase, standing), StopCause.FAILED)
                if self._hopeless(standing):
                    return self._pause(f"{self._last_summary()}, then resume", StopCause.AGENT)
                self._again(phase, None)
            else:
                names = [one.name for one in self.ground.work.workflow.phases]
                self.observer.phase_started(
                    phase,
                    attempt=standing.key.attempt,
                    round_number=standing.round_number,
                    position=names.index(phase.name) + 1,
                    total=len(names),
                )
                found = self.phases.run(phase, standing)
                if isinstance(found, Waiting):
                    return self._pause(found.reason, found.cause, found.question_id)
        return self._pause(f"{MAX_ROUNDS} attempts in one run; resume goes on", StopCause.PAUSED)

    # ------------------------------------------------------------------------------------ the steps

    def _again(self, phase: AgentPhase, reason: str | None) -> None:
        """Begin the next attempt: at an earlier phase, where the workflow says so, or this one."""
        if phase.on_failure is not None:
            if reason:
                self.manager.record(RetryReason(reason=reason))
            self.manager.advance_phase(phase.on_failure)
            return
        self.manager.retry_phase(reason or self._last_summary())

    def _last_summary(self) -> str | None:
        verdict = self.phases.last_verdict(standing_of(self.session))
        return None if verdict is None else verdict.summary

    @staticmethod
    def _exhausted(phase: AgentPhase, standing: Standing) -> bool:
        if phase.on_failure is not None:
            return standing.failures >= phase.max_attempts
        return standing.key.attempt >= phase.max_attempts

    def _failure(self, phase: AgentPhase, standing: Standing) -> str:
        verdict = self.phases.last_verdict(standing)
        told = verdict.summary if verdict is not None else "its gate was not passed"
        many = standing.failures if phase.on_failure else standing.key.attempt
        return (
            f"phase {phase.name!r} failed at attempt {many} of {phase.max_attempts}: {told}; "
            "only retry begins another attempt"
        )

    def _place_inputs(self) -> None:
        """Put the inputs into the workspace, once: before the first phase runs, never after."""
        inputs = self.ground.work.inputs
        if not inputs or has_inputs(self.session):
            return
        run = self.phases
        there = read_workspace(run.fs, run.workspace_fd, root=run.workspace)
        apply_files(
            run.fs,
            run.workspace_fd,
            {one.target: one.content for one in inputs},
            (),
            there=there,
            root=run.workspace,
        )
        self.manager.record(inputs_placed([one.target for one in inputs]))

    def _told_pause(self) -> RunOutcome:
        told = told_pause(self.session)
        self.observer.paused(told)
        return self._told(told, StopCause.PAUSED)

    def _pause(self, reason: str, cause: StopCause, question_id: str | None = None) -> RunOutcome:
        if self.session.state is SessionState.ACTIVE:
            self.manager.pause(reason, cause=cause.value, question_id=question_id)
        self.observer.paused(reason)
        return self._told(reason, cause)

    def _told(self, reason: str | None, cause: StopCause | None = None) -> RunOutcome:
        return _outcome(self.session, self.ground.work.workflow, reason, cause)


def _outcome(
    session: SessionContext,
    workflow: AgentWorkflow,
    reason: str | None,
    cause: StopCause | None = None,
) -> RunOutcome:
    standing = standing_of(session)
    done = phases_passed(session)
    attempts: dict[str, int] = {}
    for key in standing.keys:
        attempts[key.phase] = attempts.get(key.phase, 0) + 1
    return RunOutcome(
        session_id=session.session_id,
        state=session.state,
        phases_done=[phase.name for phase in workflow.phases if phase.name in done],
        reason=reason,
        attempts=attempts,
        waiting_for=None if session.state.is_terminal else standing.waiting_for,
        cause=cause,
    )
