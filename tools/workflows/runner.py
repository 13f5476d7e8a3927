"""Runs workflows: one phase after another, in a session that outlives its worker.

The flow of data, and what is durable when:

1. The session's history determines the attempt and the phase, and whether there is a result.
2. The attempt is made. A script runs in the workspace and is judged by how it ended
   (`script_attempt`); an agent is called, its answer is applied, and a gate judges the files
   (`phase_attempt`). Either way the verdict is recorded in one save.
3. The workflow goes on to the next phase, back to an earlier one, tries again, or pauses.

After a kill, the next worker reads only the session and its journal of steps. So no phase that
was passed is repeated, and no agent is called again for an answer that was stored.

The module is long because the loop and what may interrupt it are one decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from attrs import define, field

from ..base.errors import AgentForgeError
from ..base.event_log import get_logger
from ..base.files import FileSystem, OsFileSystem
from ..base.settings.privacy import read_privacy
from ..base.tracing import Attribute, Traced, traced
from ..harness import SessionManager, SessionNotFound
from ..harness.domain.session_data import SessionLabels
from ..harness.domain.session_observer import RunStarted
from ..harness.events.session_spans import trace_attachment
from .agents.port import AgentChoice, PhaseAgent
from .errors import NoAgent
from .gate_port import GateCommands, GateSandbox, GateUnavailable, sandbox_with
from .gates.command_gates import request_of
from .job import AgentWork, Job
from .ports import CallLimits, RunObserver, RunOutcome
from .programs.program_attempt import NoAgentNamed, ProgramAttempts
from .run.agent_conversation import AgentConversation
from .run.agent_questions import AgentQuestions
from .run.phase_attempt import AgentAttempts
from .run.phase_gates import PhaseGates
from .run.progress import why_stopped
from .run.run_lock import LedSession, require_open, run_lock
from .run.run_loop import WorkflowRun, outcome_of
from .run.run_spans import traced_run
from .run.script_attempt import ScriptAttempts
from .workflow import Workflow

_log: Final = get_logger("agentforge.workflow")


@define(eq=False)
class WorkflowRunner:
    """Runs and resumes workflows, of scripts and of agents, through one manager.

    Guarantees: a phase whose success is recorded is never run again; a phase runs only when all
    before it have succeeded; at most one runner at a time runs phases of a session, on one
    machine. A script whose worker was killed before its result was on disk runs again; an agent
    is called again only if its answer was not stored, and with the same prompt.

    After an exception the session can be resumed, unless the error says that it has ended or no
    longer exists.

    Args:
        manager: Leads the sessions. Scripts need its phase executor, whose code sees
            `manager.store.workspace_path(session_id)`; questions need its channel, and without
            one a run pauses where a person is needed.
        gates: Runs the gates of agents' phases; required for agents' work.
        commands: Runs the commands of gates; required for workflows with such gates.
        agents: Creates the agent that a session names, for `resume` and `retry`.
        editing_agents: The same for workflows whose agent edits in place.
        observer: Observes the runs; the manager's own observers observe every step, too.
        fs: The file system of the workspace; the real one by default.
        lock_timeout_s: How long to wait for another worker that is just ending, in seconds.
        answers_timeout_s: How long to wait for a person's answers before the session pauses, in
            seconds.
        monotonic: The clock that times agents.
        limits: The limits of what agents' calls may cost; none beside the sessions' budgets if
            None.
    """

    _manager: SessionManager
    _gates: GateSandbox | None = None
    _commands: GateCommands | None = field(default=None, kw_only=True)
    _agents: Callable[[AgentChoice], PhaseAgent] | None = field(default=None, kw_only=True)
    _editing_agents: Callable[[AgentChoice], PhaseAgent] | None = field(default=None, kw_only=True)
    _observer: RunObserver = field(factory=RunObserver, kw_only=True)
    _fs: FileSystem = field(factory=OsFileSystem, kw_only=True)
    _lock_timeout_s: float = field(default=0.5, kw_only=True)
    _answers_timeout_s: float = field(default=0.0, kw_only=True)
    _monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _limits: CallLimits | None = field(default=None, kw_only=True)

    @property
    def manager(self) -> SessionManager:
        """The manager that leads the sessions."""
        return self._manager

    def start(
        self,
        work: Workflow | AgentWork,
        agent: PhaseAgent | None = None,
        *,
        token_budget: int | None = None,
        attachments: Mapping[str, bytes] | None = None,
        labels: SessionLabels | None = None,
    ) -> RunOutcome:
        """Create a session for a workflow of scripts or an agent's work, and run it.

        If the worker is killed, the session's id is lost unless the observer saved it; `begin`
        returns the id first.

        Args:
            work: What to run; a copy of it goes into the session.
            agent: The agent of an agent's work; the one that the work names if None.
            token_budget: Tokens allotted; the workflow's if None.
            attachments: More files to store with the session, by name.
            labels: The title, tags, metadata and parent of the session.

        Returns:
            The outcome: completed, or paused with the reason.

        Raises:
            InvalidWorkflow: The work breaks its rules; nothing was started.
            InvalidSpecification: Its specification is not valid; nothing was started.
            UnknownComponent: The specification has no such component; nothing was started.
            SessionAlreadyActive: The manager leads a session that has not ended.
            GateUnavailable: Gates can't run here; nothing was started.
            NoPhaseExecutor: The manager can't run scripts; nothing was started.
            NoAgent: The work needs an agent and names none, and none was given; nothing was
                started.
            SessionConflict: The session was meanwhile ended or moved to another phase or attempt;
                the phase's result was not recorded. (A concurrent pause or budget extension does
                not
                conflict: it is preserved, and the result is recorded on top.)
            WriteError: The disk or its permissions.
            KeyboardInterrupt: Passed on; the result of what was running is not recorded.
            OperationCancelled: The thread's operation was cancelled (`cancellation`); likewise.
        """
        job = Job.of(work)
        if job.work is None:  # not in `begin`: another machine may run that session
            self._manager.check_executor()
        session_id = self._create(job, token_budget, attachments, labels)
        self._started(session_id, job, resumed=False)
        with ExitStack() as led:
            try:
                run = led.enter_context(self._leading(session_id, "run", agent))
            except BaseException:
                self._withdraw(session_id)
                raise
            return run.go_on()

    def begin(
        self,
        work: Workflow | AgentWork,
        *,
        token_budget: int | None = None,
        attachments: Mapping[str, bytes] | None = None,
        labels: SessionLabels | None = None,
    ) -> str:
        """Create a session without running it; `resume` runs it.

        For a caller that has to save the session's id before any work is done, so that it can
        always find the session again. No agent is called and no person is asked: a session that is
        created and forgotten has cost nothing but its directory.

        Args:
            work: What to run; a copy of it goes into the session.
            token_budget: Tokens allotted; the workflow's if None.
            attachments: More files to store with the session, by name.
            labels: The title, tags, metadata and parent of the session.

        Returns:
            The session's id; the session is active and on disk.

        Raises:
            InvalidWorkflow: See `start`; so are the other errors.
        """
        session_id = self._create(Job.of(work), token_budget, attachments, labels)
        self._manager.release()
        return session_id

    def outcome(self, session_id: str) -> RunOutcome:
        """Return the outcome of a session in its current state, as `start` and `resume` return it.

        Nothing is run or changed and no lock is taken: if another worker runs the session, the
        outcome is that of its last save. An active session may have a worker, or have lost it;
        `resume` finds out.

        Args:
            session_id: The session.

        Raises:
            SessionNotFound: There is no such session.
            NotAWorkflowSession: The session was not started by a workflow.
        """
        store = self._manager.store
        session = store.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=store.where)
        job = Job.of_session(store, session_id)
        return outcome_of(session, job.workflow, why_stopped(session))

    def resume(self, session_id: str, agent: PhaseAgent | None = None) -> RunOutcome:
        """Resume a session from `start` or `begin`, in whatever state its worker left it.

        A paused session becomes active. Phases that succeeded are not repeated; a phase without a
        result continues the same attempt; a phase that failed starts its next attempt.

        Args:
            session_id: The session.
            agent: The agent of an agent's work; the one that the session names if None.

        Returns:
            The outcome.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionNotFound: There is no such session.
            InvalidStateTransition: The session has ended.
            NotAWorkflowSession: The session was not started by a workflow.
            AlreadyRunning: Another worker is running it.
            PhaseNotInWorkflow: It was moved to a phase that the workflow does not have.
            AttemptsExhausted: Its phase failed as often as the workflow allows; it stays paused.
            TestsContested: Its phase contests tests, and a person has to decide.
            BudgetTooSmall: It is paused, and the remaining budget does not cover its next step; it
                stays paused.
            NoAgent: The work needs an agent and names none, and none was given.
            SessionConflict: See `start`; so are the other errors.
        """
        with self._leading(session_id, "resume", agent) as run:
            run.take_up()
            self._started(session_id, run.led.job, resumed=True)
            return run.go_on()

    def retry(
        self,
        session_id: str,
        reason: str | None = None,
        agent: PhaseAgent | None = None,
        *,
        back_to: str | None = None,
    ) -> RunOutcome:
        """Start another attempt at a session's failed phase, even beyond the workflow's limit.

        With `back_to` the session goes back to that phase instead, failed or not, and so do the
        files of its workspace, if the manager has snapshots: to the state when the phase was last
        entered. An agent's next prompt contains what was found wrong since the phase was passed,
        and the later phases run again.

        Args:
            session_id: The session.
            reason: What is different this time, for the history and the next briefing.
            agent: The agent of an agent's work; the one that the session names if None.
            back_to: The phase to go back to; the session must have been in it.

        Raises:
            NothingToRetry: The session's current phase has not failed.
            NoEarlierPhase: The session can't go back to that phase.
            SessionNotFound: See `resume`; so are the other errors.
        """
        with self._leading(session_id, "retry", agent) as run:
            run.take_up(retry=True, reason=reason, back_to=back_to)
            self._started(session_id, run.led.job, resumed=True)
            return run.go_on()

    def _check_gates(self, workflow: Workflow) -> None:
        """Check that the gates of an agent's workflow can run here, before a session is created.

        Raises:
            GateUnavailable: They can't run here.
        """
        self._ready_gates(workflow)

    # ------------------------------------------------------------------------------------ helpers

    def _create(
        self,
        job: Job,
        token_budget: int | None,
        attachments: Mapping[str, bytes] | None,
        labels: SessionLabels | None,
    ) -> str:
        if job.work is not None:
            self._check_gates(job.workflow)
        workflow = job.workflow
        own = SessionLabels() if labels is None else labels
        with traced(Traced.CREATE, {Attribute.WORKFLOW: workflow.name}) as span:
            kept = {**(attachments or {}), **job.attachments(), **trace_attachment(span)}
            session = self._manager.create(
                workflow.workflow_type,
                workflow.phases[0].name,
                workflow.token_budget if token_budget is None else token_budget,
                goal=job.goal,
                title=own.title,
                tags=own.tags,
                metadata=own.metadata,
                parent_id=own.parent_id,
                attachments=kept,
            )
            span.set(Attribute.SESSION_ID, session.session_id)
            span.set(Attribute.CONVERSATION, session.session_id)
        return session.session_id

    def _started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        self._manager.announce(RunStarted(workflow=job.workflow.name, resumed=resumed))
        self._observer.run_started(session_id, job, resumed=resumed)

    def _withdraw(self, session_id: str) -> None:
        """Delete a session that was created for a run which can't start; it is still empty."""
        manager = self._manager
        session = manager.current_session
        if session is None or session.session_id != session_id or len(session.history) > 1:
            return
        manager.release()
        try:
            manager.store.delete(session_id, expected_revision=session.revision)
        except AgentForgeError as error:  # the original error is raised
            _log.warning("session.not_withdrawn", session_id=session_id, error=str(error))

    @contextmanager
    def _leading(
        self, session_id: str, operation: str, agent: PhaseAgent | None
    ) -> Iterator[WorkflowRun]:
        manager = self._manager
        found = require_open(manager, session_id, manager.store.load(session_id), operation)
        job = Job.of_session(manager.store, session_id)
        attempts: Callable[[LedSession], ScriptAttempts | AgentAttempts] = ScriptAttempts
        if job.work is not None:
            attempts = self._agents_work(job.work, session_id, agent)
        with (
            traced_run(
                manager.store, found, workflow=job.workflow.name, operation=operation
            ) as trace,
            run_lock(
                manager,
                session_id,
                operation,
                observer=self._observer,
                job=job,
                fs=self._fs,
                lock_timeout_s=self._lock_timeout_s,
            ) as led,
        ):
            trace.keep()
            yield WorkflowRun(led=led, attempts=attempts(led), span=trace.span)

    def _agents_work(
        self, work: AgentWork, session_id: str, given: PhaseAgent | None
    ) -> Callable[[LedSession], AgentAttempts]:
        gates = self._ready_gates(work.workflow)
        agent = given if given is not None else self._named_agent(session_id, work)
        named = work.agent if given is None else None

        own = {"timeout_s": self._answers_timeout_s} if work.workflow.is_program else {}
        kind = ProgramAttempts if work.workflow.is_program else AgentAttempts

        def attempts(led: LedSession) -> AgentAttempts:
            questions = AgentQuestions(led=led, timeout_s=self._answers_timeout_s)
            return kind(
                **own,
                led=led,
                gates=PhaseGates(
                    led=led, gates=gates, commands=self._commands, questions=questions
                ),
                questions=questions,
                conversation=AgentConversation(
                    led=led,
                    agent=agent,
                    monotonic=self._monotonic,
                    limits=self._limits,
                    questions=questions,
                    may_show=read_privacy(None if named is None else named.text),
                ),
            )

        return attempts

    def _ready_gates(self, workflow: Workflow) -> GateSandbox:
        if self._gates is None:
            raise GateUnavailable("this runner has no gates, which an agent's work needs")
        self._gates.prepare(kit=workflow.needs_pytest)
        for packages in workflow.packages:
            sandbox_with(self._gates, packages)
        if workflow.command_gates:
            if self._commands is None:
                raise GateUnavailable(
                    "its gates run a command, and this runner has no jail for commands"
                )
            self._commands.prepare(request_of(gate) for gate in workflow.command_gates)
        return self._gates

    def _named_agent(self, session_id: str, work: AgentWork) -> PhaseAgent:
        make = self._editing_agents if work.workflow.edits else self._agents
        if work.agent is None and work.workflow.is_program:
            return NoAgentNamed()
        if work.agent is None or make is None:
            raise NoAgent(session_id)
        return make(work.agent)
