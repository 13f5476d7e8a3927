"""Runs workflows: one phase after the other, in a session that outlives its worker.

The way of the data, and what is durable where:

1. The session's history says which attempt at which phase it is, and whether it has a result.
2. The phase's attempt is made. A script runs in the workspace and is judged by how it ended
   (`script_attempt`); an agent is asked, its answer is applied, and a gate judges the files
   (`phase_attempt`). Either way the verdict is recorded in one save.
3. The workflow goes on to the next phase, back to an earlier one, tries again, or pauses.

A worker that comes after a kill asks only the session and its journal of steps. So no phase that
was passed is repeated, and no agent is asked again for an answer that was stored.

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
from ..harness.domain.session_notices import RunStarted
from ..harness.events.session_spans import trace_attachment
from .agents.port import AgentChoice, PhaseAgent
from .errors import NoAgent
from .gate_port import GateCommands, GateSandbox, GateUnavailable, sandbox_with
from .gates.command_gates import request_of
from .job import AgentWork, Job
from .ports import RunObserver, RunOutcome
from .run.agent_conversation import AgentConversation
from .run.agent_questions import AgentQuestions
from .run.phase_attempt import AgentAttempts
from .run.phase_gates import PhaseGates
from .run.progress import why_stopped
from .run.run_lock import LedSession, require_open, run_lock
from .run.run_loop import Run, outcome_of
from .run.script_attempt import ScriptAttempts
from .session_trace import traced_run
from .workflow import Workflow

_log: Final = get_logger("agentforge.workflow")


@define(eq=False)
class WorkflowRunner:
    """Runs and resumes workflows, of scripts and of agents, through one manager.

    Guarantees: a phase whose success is recorded is never run again; a phase runs only when all
    before it have succeeded; of one session at most one runner runs phases at a time, on one
    machine. A script whose worker was killed before its result was on disk runs again; an agent
    is asked again only if its answer was not stored, and with the same prompt.

    When a call raises, the session can be resumed, unless the error says that it has ended or is
    not there any more.

    Args:
        manager: Leads the sessions. Scripts need its phase executor, whose code sees
            `manager.store.workspace_path(session_id)`; questions need its channel, and without
            one a run pauses where a person is needed.
        gates: Where the gates of agents' phases run; agents' work needs one.
        commands: Where gates that run a command do; workflows with such gates need it.
        agents: Makes the agent that a session names, for `resume` and `retry`.
        editing_agents: The same for workflows whose agent edits in place.
        observer: Observes the runs; the manager's own observers observe every step, too.
        fs: The file system of the workspace; the real one by default.
        lock_timeout_s: How long to wait for another worker that is just ending, in seconds.
        answers_timeout_s: How long to wait for a person's answers before the session pauses
            for them, in seconds.
        monotonic: The clock that agents are timed with.
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

    @property
    def manager(self) -> SessionManager:
        """What leads the sessions of its runs."""
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
        """Begin a session for a workflow of scripts or an agent's work, and run it.

        A worker that is killed while this runs takes the session's id with it, unless the
        observer kept it; `begin` returns the id first.

        Args:
            work: What to run; a copy of it goes into the session.
            agent: Who does an agent's work; the one that it names if None.
            token_budget: Tokens allotted; the workflow's if None.
            attachments: More files to keep beside the session, by name.
            labels: The title, tags, metadata and parent of the session.

        Returns:
            How it ended: completed, or paused with the reason.

        Raises:
            InvalidWorkflow: The work breaks its rules; nothing was begun.
            InvalidSpecification: Its specification is none; nothing was begun.
            UnknownComponent: The specification has no such component; nothing was begun.
            SessionAlreadyActive: The manager leads a session that has not ended.
            GateUnavailable: Gates can't run here; nothing was begun.
            NoPhaseExecutor: The manager can't run scripts; nothing was begun.
            NoAgent: It needs an agent and names none, and none was given; nothing was begun.
            SessionConflict: Meanwhile somebody else ended the session or took it to another phase
                or attempt; the phase's result was not recorded. (What a pause or an extended
                budget changed is kept, and the result is recorded on top.)
            WriteError: The disk or its permissions.
            KeyboardInterrupt: As it came; what was running is not recorded.
            OperationCancelled: The thread's operation was cancelled (`cancellation`); likewise.
        """
        job = Job.of(work)
        if job.work is None:  # what another machine may run is begun without
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
        """Begin a session and run nothing of it; `resume` does.

        For a caller that has to keep the session's id in a place of its own before any work is
        done, so that it finds the session again whatever happens then. No agent and no person is
        asked: a session that was begun and forgotten has cost nothing but its directory.

        Args:
            work: What to run; a copy of it goes into the session.
            token_budget: Tokens allotted; the workflow's if None.
            attachments: More files to keep beside the session, by name.
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
        """Return how a session stands, as `start` and `resume` do of one that they have run.

        Nothing is run or changed and no lock is taken: if another worker runs the session, the
        outcome is of what it saved last. A session that is active may be run by one, or have lost
        the one that ran it; `resume` finds out.

        Args:
            session_id: The session.

        Raises:
            SessionNotFound: There is no such session.
            NotAWorkflowSession: No workflow began it.
        """
        store = self._manager.store
        session = store.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=store.where)
        job = Job.of_session(store, session_id)
        return outcome_of(session, job.workflow, why_stopped(session))

    def resume(self, session_id: str, agent: PhaseAgent | None = None) -> RunOutcome:
        """Resume a session that was begun by `start` or `begin`, in whatever state its worker left.

        A paused session becomes active. Phases that succeeded are not repeated; a phase without a
        result goes on as the same attempt; a phase that failed begins its next attempt.

        Args:
            session_id: The session.
            agent: Who goes on with an agent's work; the one that the session names if None.

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
            TestsContested: Its phase contests tests, and a person has to decide.
            BudgetTooSmall: It is paused, and what is left does not cover its next step; it stays
                paused.
            NoAgent: It needs an agent and names none, and none was given.
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
        """Begin another attempt at a session's failed phase, beyond the workflow's limit too.

        With `back_to` the session goes back to that phase instead, failed or not, and so do the
        files of its workspace, where the manager keeps snapshots: to where the phase began, the
        last time that it was entered. What was found wrong since it was passed is in an agent's
        next prompt, and the phases after it follow anew.

        Args:
            session_id: The session.
            reason: What is different this time; it goes into the history and the next briefing.
            agent: Who goes on with an agent's work; the one that the session names if None.
            back_to: The phase to go back to, of those that the session has been in.

        Raises:
            NothingToRetry: The session's current phase has not failed.
            NoEarlierPhase: It can't go back to that phase.
            SessionNotFound: See `resume`; so are the other errors.
        """
        with self._leading(session_id, "retry", agent) as run:
            run.take_up(retry=True, reason=reason, back_to=back_to)
            self._started(session_id, run.led.job, resumed=True)
            return run.go_on()

    def _check_gates(self, workflow: Workflow) -> None:
        """See that what judges an agent's workflow can run here, before a session begins.

        Raises:
            GateUnavailable: It can't.
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
        """Delete a session that was created for a run which can't begin; nothing is in it yet."""
        manager = self._manager
        session = manager.current_session
        if session is None or session.session_id != session_id or len(session.history) > 1:
            return
        manager.release()
        try:
            manager.store.delete(session_id, expected_revision=session.revision)
        except AgentForgeError as error:  # what kept the run from beginning is raised
            _log.warning("session.not_withdrawn", session_id=session_id, error=str(error))

    @contextmanager
    def _leading(self, session_id: str, operation: str, agent: PhaseAgent | None) -> Iterator[Run]:
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
            yield Run(led=led, attempts=attempts(led), span=trace.span)

    def _agents_work(
        self, work: AgentWork, session_id: str, given: PhaseAgent | None
    ) -> Callable[[LedSession], AgentAttempts]:
        gates = self._ready_gates(work.workflow)
        agent = given if given is not None else self._named_agent(session_id, work)
        named = work.agent if given is None else None

        def attempts(led: LedSession) -> AgentAttempts:
            questions = AgentQuestions(led=led, timeout_s=self._answers_timeout_s)
            return AgentAttempts(
                led=led,
                gates=PhaseGates(
                    led=led, gates=gates, commands=self._commands, questions=questions
                ),
                questions=questions,
                conversation=AgentConversation(
                    led=led,
                    agent=agent,
                    monotonic=self._monotonic,
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
        if work.agent is None or make is None:
            raise NoAgent(session_id)
        return make(work.agent)
