"""The application service: one session at a time, each change on disk before it is reported.

Every change follows the same steps: change the session in memory, save it once, log it. If the save
fails, the session in memory is reset to the stored state, and the error goes to the caller. The
module is long because its docstrings are the reference of the library's API; the methods are short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from attrs import evolve

from ..base.cancellation import check_cancelled
from ..base.clock import Clock, utc_now
from ..base.event_log import get_logger
from ..base.files import WriteError
from ..base.files.trees import TreeChanges
from ..base.identifiers import next_session_id
from ..base.question import Question
from ..base.settings.choices import DEFAULT_PARTS
from ..base.tracing import Attribute, Traced, is_traced, traced
from .domain.history_events import (
    BudgetExtended,
    CheckpointTaken,
    HistoryEvent,
    InputsPlaced,
    PhaseEnded,
    QuestionEnded,
)
from .domain.session_checks import check, clean_up_faults, count_fault, input_faults
from .domain.session_data import NO_METADATA, NO_WORKFLOW_STATE
from .domain.session_description import UNCHANGED, DescriptionChange, Unchanged, merged
from .domain.session_observer import (
    Notice,
    PhaseStarted,
    SessionDeleted,
    SessionLoaded,
    SessionObserver,
    SessionPassedOver,
    SessionsCleanedUp,
)
from .errors import (
    BudgetExceeded,
    ChangesUnsaved,
    NoActiveSession,
    NoPhaseExecutor,
    NoQuestionChannel,
    PhaseWaits,
    SessionAlreadyActive,
    SessionConflict,
    SessionIdTaken,
    SessionNotFound,
)
from .events.session_events import SessionEvents
from .events.session_spans import (
    UNKNOWN_TRACE,
    KeptTrace,
    attempt_span,
    kept_trace,
    trace_attachment,
)
from .lazy import Lazy, lazy
from .ports import PhaseExecutor, PhaseResult, QuestionChannel, TokenCounter
from .services.person_questions import PersonQuestions
from .services.session_checkpoints import SessionCheckpoints
from .services.session_recording import SessionChanges, record_result, take_over
from .session_domain import (
    DEFAULT_TOKEN_BUDGET,
    BudgetState,
    InvalidSession,
    InvalidStateTransition,
    SessionArtifact,
    SessionContext,
    SessionState,
    validate_session_id,
)
from .session_layout import SESSION_FILE, TRACE_FILE
from .session_ports import LocalSessions
from .session_store import SessionStore
from .snapshot_port import SnapshotTaken, WorkspaceSnapshots
from .views.briefing import DEFAULT_MAX_TOKENS, brief, most_tokens
from .views.checkpoints import CheckpointEntry, checkpoints
from .views.session_filter import AskedFilters, SessionFilter
from .views.session_head import SessionSummary, UnreadableSession
from .views.session_page import (
    MAX_PAGE,
    SessionCursor,
    SessionOrder,
    SessionPage,
    as_order,
    in_order,
)
from .views.work_state import NOTHING_KNOWN, WorkState

if TYPE_CHECKING:
    from ..base.search_words import SearchWords
    from ..base.tracing.conventions import Carrier
    from .events.event_feed import EventFeed
    from .services.suspended_phases import Calls, Patience, SuspendedPhases
    from .views.session_search import SessionMatches

__all__ = [
    "InvalidSession",
    "InvalidStateTransition",
    "NoActiveSession",
    "NoPhaseExecutor",
    "NoQuestionChannel",
    "SessionAlreadyActive",
    "SessionConflict",
    "SessionManager",
]

_IDS_TRIED: Final = 10_000
"""How many consecutive ids are tried."""
_Ids = list[str]
_Artifacts = list[SessionArtifact]
_Checkpoints = list[CheckpointEntry]
_OPEN: Final = (SessionState.ACTIVE, SessionState.PAUSED)


class SessionManager:
    """Leads one session through its life cycle.

    Guarantees: when a method returns, what it did is on disk; when it raises, the session, in
    memory and on disk, is what it was before the call (except for a `WriteError` that is `visible`,
    which says so). A session object returned by an earlier call stays the current one; it is
    changed in place.

    Not thread-safe: one manager belongs to one worker. Any number of managers, in any number of
    processes, may lead the same session; the one that saves second gets a `SessionConflict` and
    calls `reload()`.

    A context manager that closes itself at the end of the block; the session stays as it is on
    disk.
    """

    def __init__(
        self,
        store: LocalSessions | Path | str | None = None,
        *,
        executor: PhaseExecutor | None = None,
        channel: QuestionChannel | Lazy[QuestionChannel] | None = None,
        snapshots: WorkspaceSnapshots | Lazy[WorkspaceSnapshots] | None = None,
        clock: Clock = utc_now,
        observers: Iterable[SessionObserver] = (),
        briefing_shows: Collection[str] = DEFAULT_PARTS,
    ) -> None:
        """Create a manager without a session.

        Args:
            store: Where sessions are stored: a `SessionStore`, or its path; `.agentforge/sessions`
                by default.
            executor: Runs phase work; only `run_phase()` needs it.
            channel: Where questions to a person are asked; only `ask()` needs it, and opens a
                `Lazy` one.
            snapshots: Saves the workspace at each checkpoint; without it no snapshots are taken.
                May be `Lazy`, too.
            clock: The time.
            observers: The observers, called in this order; see `SessionObserver`.
            briefing_shows: The user data in a session's briefing: some of "title", "tags",
                "metadata" and "workflow_state".
        """
        self._briefing_shows = tuple(briefing_shows)
        self._store: LocalSessions = (
            SessionStore(store) if store is None or isinstance(store, Path | str) else store
        )
        self._executor = executor
        self._clock = clock
        self._current: SessionContext | None = None
        self._events = SessionEvents(
            get_logger("agentforge.session"), observers=observers, clock=clock
        )
        self._trace: tuple[str, KeptTrace] | None = None
        self._changes = SessionChanges(self._store, self._events, origin=self._trace_origin)
        self._checkpoints = SessionCheckpoints(
            None if snapshots is None else lazy(snapshots),
            places=self._store,
            changes=self._changes,
            clock=clock,
        )
        self._questions = (
            None
            if channel is None
            else PersonQuestions(
                lazy(channel),
                sessions=self._store,
                changes=self._changes,
                events=self._events,
                clock=clock,
            )
        )

    # ------------------------------------------------------------------------- the session itself

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the current session, unchanged, and all resources of the store and the executor.

        Later use reopens what it needs. Safe to repeat.
        """
        self._current = None
        close_executor: Callable[[], object] = getattr(self._executor, "close", lambda: None)
        try:
            close_executor()
        finally:
            self._store.close()

    @property
    def store(self) -> LocalSessions:
        """The store that holds the sessions."""
        return self._store

    @property
    def current_session(self) -> SessionContext | None:
        """The session that this manager leads, or None."""
        return self._current

    def create(
        self,
        workflow_type: str | None = None,
        initial_phase: str | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        *,
        goal: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] = NO_METADATA,
        workflow_state: Mapping[str, Any] = NO_WORKFLOW_STATE,
        parent_id: str | None = None,
        attachments: Mapping[str, bytes] | None = None,
    ) -> SessionContext:
        """Create a session and save it.

        Args:
            workflow_type: "spec", "tdflow", …, or None.
            initial_phase: The first phase, or None.
            token_budget: Tokens allotted, 1 or more.
            goal: What the work is for; a briefing starts with it.
            title: A name for people: one line of at most 200 characters.
            tags: Words to find it by: at most 32, of at most 64 characters, without blanks and
                commas.
            metadata: The user's own data: JSON values by name, at most 16 KiB in all. The given
                mapping is copied.
            workflow_state: Data its workflow carries from step to step: the same, at most 256 KiB.
            parent_id: The session that it is made from, if any; it need not exist.
            attachments: Files to store beside the session, by name; they appear together with it.

        Raises:
            SessionAlreadyActive: The current session has not ended.
            ChangesUnsaved: Within `changes()`.
            InvalidSession: An argument is invalid; every fault is listed.
            WriteError: It could not be saved; no session was created (unless the error says
                `visible`: then it exists and is current, but may not survive a power failure).
        """
        self._refuse_within_changes("create")
        if self._current is not None and not self._current.state.is_terminal:
            raise SessionAlreadyActive(self._current.session_id)
        now = self._clock()
        session = SessionContext.create(
            workflow_type,
            initial_phase,
            token_budget,
            goal=goal,
            title=title,
            tags=tags,
            metadata=metadata,
            workflow_state=workflow_state,
            parent_id=parent_id,
            now=now,
        )
        session = self._save_traced(session, attachments or {})
        self._events.added(session, 0)
        self._checkpoints.prepare(session)
        return session

    def _save_traced(
        self, session: SessionContext, attachments: Mapping[str, bytes]
    ) -> SessionContext:
        """Save a new session in its own span, unless it was created in a traced one."""
        if TRACE_FILE in attachments or not is_traced():
            return self._save_new(session, attachments=attachments)
        with traced(Traced.CREATE, {Attribute.WORKFLOW: session.workflow_type}) as span:
            session = self._save_new(session, attachments={**attachments, **trace_attachment(span)})
            span.set(Attribute.SESSION_ID, session.session_id)
            span.set(Attribute.CONVERSATION, session.session_id)
        return session

    def _trace_origin(self) -> Carrier:
        """Return the parent span of what is done to the current session."""
        if self._current is None:
            return UNKNOWN_TRACE.origin
        session_id = self._current.session_id
        if self._trace is None or self._trace[0] != session_id:
            self._trace = (session_id, kept_trace(self._store, self._current))
        return self._trace[1].origin

    def _save_new(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> SessionContext:
        """Save a new session, under the next free id if its own is taken, and make it current."""
        for left in reversed(range(_IDS_TRIED)):
            try:
                self._changes.save(session, attachments=attachments, inherited=inherited)
                break
            except SessionIdTaken:
                if not left:
                    raise
                session = replace(session, session_id=next_session_id(session.session_id))
            except WriteError as error:
                if error.visible:  # it exists, so it is better led than forgotten
                    self._current = session
                raise
        self._current = session
        return session

    def load(self, session_id: str) -> SessionContext | None:
        """Load a stored session and make it the current one, if it exists.

        If it does not exist, the former current session is released, so that nothing is recorded in
        it by mistake; an error leaves it current. `open()` is for callers that require the session.

        Returns:
            The session, or None if no session has this id; then none is current.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionCorrupted: Its file can't be parsed as a session (`SessionUnreadable` if it can't
                be read at all).
        """
        self._refuse_within_changes("load")
        self._current = session = self._store.load(session_id)
        if session is None:
            return None
        notice = SessionLoaded(state=session.state.value, revision=session.revision)
        self._events.announce(session, notice)
        return session

    def open(self, session_id: str) -> SessionContext:
        """Load a stored session and make it the current one.

        Raises:
            SessionNotFound: No session has this id; no session is current then.
            InvalidSessionId: The id is malformed.
            SessionCorrupted: Its file can't be parsed as a session.
        """
        session = self.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=self.store.where)
        return session

    def exists(self, session_id: str) -> bool:
        """Return whether a session with this id exists.

        Raises:
            InvalidSessionId: The id is malformed.
        """
        return self.store.exists(session_id)

    def delete(self, session_id: str, *, missing_ok: bool = False) -> bool:
        """Delete a session with its workspace; if it was current, none is current afterwards.

        Args:
            session_id: The session.
            missing_ok: Whether a missing session is no error.

        Returns:
            Whether it existed.

        Raises:
            SessionNotFound: No session has this id, and `missing_ok` is False.
            InvalidSessionId: The id is malformed.
            SessionUnreadable: Something else, such as a symbolic link, is in its place; it was left
                alone.
            WriteError: It could not be removed from the base; nothing was deleted.
            RemovalError: It is out of every listing, but some of it could not be deleted.
        """
        if self._changes.together_on == session_id:
            self._refuse_within_changes("delete")
        deleted = self.store.delete(session_id)
        if not deleted and not missing_ok:
            raise SessionNotFound(session_id, path=self.store.where)
        if self._current is not None and self._current.session_id == session_id:
            self._current = None
        self._checkpoints.forget_deleted()
        if deleted:
            self._events.announce(session_id, SessionDeleted())
        return deleted

    def reload(self) -> SessionContext:
        """Read the current session again, in place, as after a `SessionConflict`.

        Returns:
            The same object, now as it is on disk.

        Raises:
            NoActiveSession: No session is current, or it was deleted (then none is current any
                more).
            SessionCorrupted: Its file is no longer a session; the one in memory is unchanged.
        """
        session = self._require_alone("reload")
        found = self.store.load(session.session_id)
        if found is None:
            self._current = None
            raise NoActiveSession("reload")
        take_over(session, found)
        return session

    def release(self) -> None:
        """Release the current session, unchanged; another worker may load it.

        Raises:
            ChangesUnsaved: Within `changes()`.
        """
        self._refuse_within_changes("release")
        self._current = None

    def save(self) -> Path:
        """Save the current session as it is in memory.

        Every other method saves its own changes; this one is for changes that a caller made
        directly. A caller must not change the state, nor anything of a session that has ended.

        Returns:
            The path of its file.

        Raises:
            NoActiveSession: No session is current.
            InvalidSession: It violates the rules of the domain; nothing was written.
            InvalidStateTransition: The stored session has ended, or the state was set directly;
                nothing was written, and `reload()` restores what is stored.
            SessionConflict: Another worker saved it since.
            WriteError: It could not be saved.
        """
        session = self._require_alone("save")
        self._changes.save(session)
        return self._file_of(session)

    def changes(self) -> AbstractContextManager[object]:
        """Combine several changes of the current session into one save.

        ```
        with manager.changes():
            manager.record_tokens(1_200)
            manager.set_workflow_state({"step": 7})
            manager.advance_phase("green")
        ```

        Within the block each method changes the session in memory and refuses what it would refuse
        otherwise; direct changes are included, too. At the end everything is saved once (nothing,
        if nothing was changed), and only then logged. If the block raises, or the save fails, the
        session in memory is what it was before the block, and so is the stored one. A nested block
        is part of the outer one: if it raises, its own changes are undone, and the outer one may
        continue. A kill at any time leaves the session as before the block, or as after it.

        Operations that do not end with a change of this session in memory raise `ChangesUnsaved`
        within the block: `create`, `load`, `open`, `resume(session_id)`, `reload`, `release`,
        `save`, `delete` of this session, `run_phase`, `ask`, `rewind`, `begin_phase_again`, `fork`
        and `prepare_workspace`. Data that a method stores beside the session, such as a
        checkpoint's snapshot, is stored at once; if the block fails, nothing refers to it.

        Raises:
            NoActiveSession: No session is current.
            InvalidSession: At the end: a direct change violates the rules of the domain.
            InvalidStateTransition: At the end: the stored session has ended.
            SessionConflict: At the end: another worker saved the session since; `reload()` restores
                what is stored.
            WriteError: At the end: it could not be saved.
        """
        return self._changes.changing(self._require("changes"), unless_unchanged=True)

    # --------------------------------------------------------------------------------- life cycle

    def pause(
        self,
        reason: str | None = None,
        *,
        cause: str | None = None,
        question_id: str | None = None,
        missing_tokens: int | None = None,
        back_to: str | None = None,
        needs_retry: bool = False,
    ) -> SessionContext:
        """Stop the session until it is resumed.

        Args:
            reason: The reason; it goes into the history and the next briefing.
            cause: The reason for programs: a short name ("budget", "agent", …).
            question_id: The question that it waits for; its reply resumes the session.
            missing_tokens: The budget extension that is needed first, in tokens.
            back_to: The phase that a person may choose to return to.
            needs_retry: Whether only an explicit retry starts another attempt.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It is not active.
        """
        return self._transition(
            "pause",
            reason,
            cause=cause,
            question_id=question_id,
            missing_tokens=missing_tokens,
            back_to=back_to,
            needs_retry=needs_retry,
        )

    def resume(self, session_id: str | None = None) -> SessionContext:
        """Resume a session.

        Args:
            session_id: The session to open first, which may still be active (its worker died); by
                default the current one, which must be paused.

        Raises:
            NoActiveSession: No session is current.
            SessionNotFound: No session has this id; no session is current then.
            SessionCorrupted: Its file can't be parsed as a session.
            InvalidStateTransition: It is not paused, or has ended.
        """
        if session_id is not None:
            session = self.open(session_id)
            if session.state is SessionState.ACTIVE:
                return session
        return self._transition("resume")

    def complete(self) -> SessionContext:
        """End the session as completed, for good.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It is not active.
        """
        return self._transition("complete")

    def abort(self, reason: str | None = None) -> SessionContext:
        """End the session as aborted, for good.

        Args:
            reason: The reason; it goes into the history.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended already.
        """
        return self._transition("abort", reason)

    def _transition(
        self, operation: str, details: str | None = None, **fields: str | int | None
    ) -> SessionContext:
        session = self._require(operation)
        with self._changes.changing(session):
            session.apply(operation, details=details, now=self._clock(), **fields)
        if self._questions is not None and session.state.is_terminal:
            questions = self._questions
            self._changes.after_save(lambda: questions.withdraw_all(session))
        return session

    # ------------------------------------------------------------------------------------- phases

    def advance_phase(self, new_phase: str) -> SessionContext:
        """Enter another phase, at its first attempt; a checkpoint.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateForPhaseAdvance: It is not active.
            InvalidSession: `new_phase` is not a valid name.
        """
        session = self._require("advance_phase")
        taken = self._snapshot_to_advance(session)
        with self._changes.changing(session):
            self._leave_program(session, f"phase {new_phase} began")
            session.enter_phase(
                new_phase, snapshot=taken.snapshot, unkept=taken.unkept, now=self._clock()
            )
        return session

    def retry_phase(self, reason: str | None = None) -> SessionContext:
        """Start another attempt at the current phase.

        Args:
            reason: What to do differently; it goes into the history.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It is not active.
        """
        session = self._require("retry_phase")
        with self._changes.changing(session):
            self._leave_program(session, "another attempt began")
            session.next_attempt(reason=reason, now=self._clock())
        return session

    def run_phase(
        self,
        code: str,
        *,
        files: Mapping[str, bytes | str] | None = None,
        tokens: int = 0,
        deadline_s: float | None = None,
        fuel: int | None = None,
        judge: Callable[[PhaseResult], str | None] | None = None,
        calls: Calls | None = None,
        patience: Patience | None = None,
    ) -> PhaseResult:
        """Run the work of the current phase and record its result, in one save.

        The code runs first; then the files it made, the tokens, and the result are saved in the
        session together. If the worker dies in between, the session does not show the run, so the
        work runs again: the code runs at least once, its result is recorded exactly once.

        Code that waits (for a person, a call's result, a moment) is suspended: its program is
        stored with the session, at a checkpoint, each of its questions is asked once, and
        `PhaseWaits` is raised. The next call with the same code, by any worker, goes on at that
        line once there is an answer, or the moment has come; the result has what it printed since.
        Other code, another attempt or another phase drops the program, which the history says; a
        return to that checkpoint, or a fork from it, goes on with it, and asks again.

        Args:
            code: Python source; it runs in the session's workspace.
            files: Files to put into the workspace first, by their path from its top; text is
                encoded as UTF-8. They are the caller's: the result does not list them as created.
            tokens: The tokens to charge to the phase, 0 or more.
            deadline_s: Wall-clock limit in seconds; the executor's default if None.
            fuel: Limit in units of fuel; the executor's default if None.
            judge: Decides whether the result is a success: returns None, or the reason why not. By
                default a result is judged by its own `success`.
            calls: Carries out what the code calls, all of one suspension at a time, and returns the
                answers by the requests' ids: JSON, or `ports.Unanswered`. It may be called again
                for the same requests after a kill. What it raises leaves the code suspended. If
                None, a person is asked for the result of each call.
            patience: Is called with the open questions of code that waits, and returns for how many
                seconds to wait before `PhaseWaits`; none if None.

        Returns:
            The result, with `success` as it was judged.

        Raises:
            PhaseWaits: The code waits; its program is stored.
            NoQuestionChannel: The code asks, and the manager has no channel; its program is stored.
            NoPhaseExecutor: The manager has no executor.
            NoActiveSession: No session is current.
            InvalidStateTransition: It is not active.
            InvalidSession: `tokens` is not a valid count, or `files` can't be files of a workspace;
                nothing was run.
            SessionConflict: While the code ran, another worker ended the session, moved it to
                another phase or attempt, or recorded a result; this one was not recorded. Other
                changes saved meanwhile (a budget extended, a pause) remain, and the result is
                recorded on top of them.
            WriteError: The result could not be saved.
            OperationCancelled: The thread's operation was cancelled (`cancellation`); the run was
                not recorded.
        """
        with attempt_span(self._current, self._trace_origin) as span:
            if self._executor is None:
                raise NoPhaseExecutor
            session = self._require_alone("run_phase")
            session.require(SessionState.ACTIVE, operation="run_phase")
            check([*count_fault("tokens", tokens, least=0), *input_faults(files or {})])
            self._checkpoints.prepare(session)
            run = self._executor.execute
            execute = partial(run, files=files) if files else run  # not all executors accept files
            execute = partial(execute, deadline_s=deadline_s, fuel=fuel)
            waiting: dict[str, Any] = {"calls": calls, "patience": patience}
            try:
                result = self._ran(session, code, execute, deadline_s, waiting)
            except PhaseWaits:
                span.set(Attribute.OUTCOME, "suspended")
                raise
            problem = judge(result) if judge is not None else result.problem
            judged = evolve(result, success=problem is None)
            taken = self._checkpoints.take(session, "result")

            def change() -> PhaseEnded:
                now = self._clock()
                return record_result(session, judged, problem, tokens=tokens, now=now, taken=taken)

            self._changes.record(session, change)
            span.set(Attribute.OUTCOME, "passed" if judged.success else "failed")
            return judged

    def _ran(
        self,
        session: SessionContext,
        code: str,
        execute: Callable[..., PhaseResult],
        deadline_s: float | None,
        waiting: Mapping[str, Any],
    ) -> PhaseResult:
        """Run code, or go on with its suspended program, until it ends; save each suspension.

        Raises:
            PhaseWaits: It waits.
        """
        from .views.suspended_phases import suspended_phase  # few programs run a phase

        resume: Callable[..., PhaseResult] | None = getattr(self._executor, "resume", None)
        while True:
            program = suspended_phase(session)
            if program is not None:
                may_resume = resume is not None
                program = self._suspended.under_way(session, code, may_resume=may_resume)
            if program is None or resume is None:
                self._events.announce(session, PhaseStarted())
                result = execute(code, session_id=session.session_id)
            else:
                answers = self._suspended.answers(session, program, **waiting)
                state = self._suspended.take_up(session, program, answers)
                self._events.announce(session, PhaseStarted())
                result = resume(
                    state, answers, session_id=session.session_id, deadline_s=deadline_s
                )
            if result.trapped == "cancelled":
                check_cancelled()
            if result.suspended is None:
                return result
            refused = self._suspended.refused(session, result)
            if refused is not None:
                return refused
            taken = self._checkpoints.take(session, "suspended")
            self._suspended.record(session, code, result, taken)

    def _leave_program(self, session: SessionContext, reason: str) -> None:
        from .views.suspended_phases import suspended_phase  # few sessions have one

        if suspended_phase(session) is not None:
            self._suspended.drop(session, reason)

    @cached_property
    def _suspended(self) -> SuspendedPhases:
        from .services.suspended_phases import SuspendedPhases

        return SuspendedPhases(
            self._store,
            changes=self._changes,
            questions=self._questions,
            events=self._events,
            clock=self._clock,
        )

    def check_executor(self) -> None:
        """Check that phases can run here, as far as the executor can determine without a run.

        Raises:
            NoPhaseExecutor: This manager has no executor.
            AgentForgeError: Code can't be run on this machine; the error says what to change.
        """
        if self._executor is None:
            raise NoPhaseExecutor
        tell = getattr(self._executor, "check", None)
        if callable(tell):
            tell()

    def checkpoint_session(self) -> Path:
        """Save the session at its current position, with an entry in its history.

        Returns:
            The path of its file.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
        """
        with self._changing("checkpoint_session") as session:
            event = self._checkpoints.with_snapshot(session, CheckpointTaken())
            session.add_event(event, now=self._clock())
        return self._file_of(session)

    def _snapshot_to_advance(self, session: SessionContext) -> SnapshotTaken:
        """Take a snapshot of the workspace, unless the phase's result just did."""
        last = session.history[-1].event
        if isinstance(last, PhaseEnded) and (last.snapshot or last.unkept):
            return SnapshotTaken()
        return self._checkpoints.take(session, "advance from")

    def workspace_path(self) -> Path:
        """Return the session's workspace on this machine, prepared for use.

        Raises:
            NoActiveSession: No session is current.
            SessionNotFound: It was deleted.
            AgentForgeError: As from `prepare_workspace()`.
        """
        self.prepare_workspace()
        session_id = self._require("workspace_path").session_id
        workspace = self._store.workspace_path(session_id)
        try:
            workspace.mkdir(0o700, exist_ok=True)
        except FileNotFoundError as error:
            raise SessionNotFound(session_id, path=self._store.where) from error
        return workspace

    def prepare_workspace(self) -> None:
        """Make the workspace match the session, if a killed worker left it unfinished.

        A workspace from a person's repository is checked out; one in the middle of going back is
        restored; any other is left alone. A caller that works in a workspace without `run_phase()`
        calls this first.

        Raises:
            NoActiveSession: No session is current.
            SessionConflict: Another worker saved the session meanwhile.
            WriteError: The file system refused.
            AgentForgeError: The workspace could not be made; the error says what to do.
        """
        self._checkpoints.prepare(self._require_alone("prepare_workspace"))

    def checkpoints(self) -> _Checkpoints:
        """Return the checkpoints of the session, oldest first.

        Raises:
            NoActiveSession: No session is current.
        """
        return checkpoints(self._require("checkpoints"))

    def diff(
        self,
        before: str | int | None = None,
        after: str | int | None = None,
        *,
        patch: bool = False,
        paths: Sequence[str] = (),
    ) -> TreeChanges:
        """Compare the workspace at two checkpoints.

        Args:
            before: A checkpoint: its number, the beginning of its snapshot's id, or a phase, which
                means its last checkpoint; what the work started from if None.
            after: The same; the current workspace if None.
            patch: Whether to include the changed lines.
            paths: Only these files, and the contents of these folders.

        Raises:
            NoActiveSession: No session is current.
            NoSnapshotKeeper: The manager takes no snapshots.
            CheckpointNotFound: There is no such checkpoint.
            CheckpointNotKept: It has no snapshot.
        """
        session = self._require("diff")
        return self._checkpoints.changes(session, before, after, patch=patch, paths=paths)

    def rewind(self, to: str | int, *, in_turn: bool = False) -> CheckpointEntry:
        """Return to a checkpoint: the phase, the attempt and the complete workspace.

        In an agent's session the person's own folder is changed: the files that differ, each in one
        step, and no file that the snapshots leave out. If the process is killed, the same call
        completes it.

        The history only grows, and what is spent stays spent. The former workspace is saved as a
        checkpoint, so that you can return to it. If the process is killed, the next
        `prepare_workspace()` or `run_phase()` finishes the operation.

        Args:
            to: The checkpoint, as for `diff()`.
            in_turn: Whether an agent's turn may be under way, or interrupted.

        Returns:
            The checkpoint.

        Raises:
            AgentAtWork: An agent is at work in the person's folder; nothing was changed.
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended; `fork()` continues from it.
            SessionInUse: A run is at work in it.
            CheckpointNotFound: There is no such checkpoint.
            CheckpointNotKept: It has no snapshot; nothing was changed.
            WorkspaceNotKept: The current workspace can't be saved; nothing was changed.
            WriteError: The file system refused.
        """
        session = self._require_alone("rewind")
        session.require(*_OPEN, operation="rewind")
        target = self._checkpoints.rewind(session, to, in_turn=in_turn)
        if self._questions is not None:
            self._questions.withdraw_all(session)
        return target

    def bring(self, to: str | int) -> CheckpointEntry:
        """Bring the person's folder of an agent's session to the files of a checkpoint.

        The session itself goes on where it is. The present files are saved as a checkpoint first,
        to which `rewind()` returns. If the process is killed, the same call completes it.

        Args:
            to: The checkpoint, as for `diff()`.

        Returns:
            The checkpoint.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            SessionInUse: A run is at work in it.
            OtherBranch: The folder has another branch than the session's; nothing was changed.
            CheckpointNotKept: It has no snapshot; nothing was changed.
            WorkspaceNotKept: The current files can't be saved; nothing was changed.
            WriteError: The file system refused.
        """
        session = self._require_alone("bring")
        session.require(*_OPEN, operation="bring")
        return self._checkpoints.bring(session, to)

    def begin_phase_again(self, phase: str) -> bool:
        """Restore the session and all its files to the start of a phase, at its first attempt.

        This is the position before the first attempt after the phase was last entered. History and
        spent tokens stay, as with `rewind()`. The caller must hold the session's run lock.

        Args:
            phase: A phase that the session has been in.

        Returns:
            Whether it was done; False without snapshots in general or this one; then nothing was
            changed.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            SessionInUse: Something is at work in its workspace.
            WriteError: The file system refused.
        """
        session = self._require_alone("begin_phase_again")
        session.require(*_OPEN, operation="rewind")
        done = self._checkpoints.begin_again(session, phase)
        if done and self._questions is not None:
            self._questions.withdraw_all(session)
        return done

    def snapshots_disk_bytes(self) -> int:
        """Return the disk usage of the session's snapshots, in bytes.

        Raises:
            NoActiveSession: No session is current.
        """
        return self._checkpoints.disk_bytes(self._require("snapshots_disk_bytes"))

    def sweep_snapshots(self) -> None:
        """Remove unreferenced snapshots, as a killed worker leaves them.

        Raises:
            NoActiveSession: No session is current.
        """
        self._checkpoints.sweep(self._require("sweep_snapshots"))

    def fork(self, at: str | int, *, token_budget: int | None = None) -> SessionContext:
        """Create a session at a checkpoint of the current one; the new session is current.

        It has the files, the phase, the goal and the history of that checkpoint, then an entry with
        its parent's id, which is also its `parent_id`. Title, tags, metadata and workflow state are
        the parent's current ones: earlier ones are not stored. The parent is not changed and may
        have ended.

        Args:
            at: The checkpoint, as for `diff()`.
            token_budget: Tokens allotted, nothing spent; if None, the parent's current budget with
                what it has spent.

        Raises:
            NoActiveSession: No session is current.
            CheckpointNotFound: There is no such checkpoint.
            CheckpointNotKept: It has no snapshot; no session was created.
            InvalidSession: `token_budget` is not a valid budget.
            WriteError: It could not be saved.
        """
        parent = self._require_alone("fork")
        fork = self._checkpoints.fork(parent, at, token_budget=token_budget)
        inherited = self.store.read_attachments(parent.session_id)
        fork = self._save_new(fork, inherited=inherited)
        self._events.added(fork, len(fork.history) - 1)
        self._checkpoints.prepare(fork)
        return fork

    # ---------------------------------------------------------------------------------- a person

    def ask(
        self,
        questions: Sequence[Question],
        *,
        key: str | None = None,
        pause: bool = False,
        timeout_s: float | None = None,
        on_waiting: Callable[[str], object] = lambda _: None,
    ) -> QuestionEnded:
        """Ask a person and wait for the reply.

        The question's id is in the session's history, on disk, before the person can see it. A
        worker that dies while it waits loses nothing: when the next one asks the same (the same
        words in the same phase and attempt, or the same `key`), it takes over the open question, or
        gets the reply at once. So a person is asked once.

        Args:
            questions: What to ask, 1 or more.
            key: Names the question within this session; by default its words, the phase and the
                attempt. Use another key to ask the same again.
            pause: Whether to pause the session while it waits, so that no worker continues it
                meanwhile; the reply resumes it.
            timeout_s: The longest wait, in seconds; None waits without end.
            on_waiting: Called with the question's id when the person can see it and the wait
                starts; not called if the reply is already known.

        Returns:
            The reply. A rejection counts as one, and so does the end of a question without an
            answer, if it was withdrawn or removed ("abandoned") or not answered in time
            ("timed_out").

        Raises:
            NoQuestionChannel: The manager has no channel.
            NoActiveSession: No session is current.
            InvalidStateTransition: The session has ended, or is paused for another reason.
            ValueError: The key is invalid. The channel's own error says what is wrong with
                questions.
            QuestionWaits: There is no reply yet; the question stays open, and a session that was
                paused for it stays paused.
            SessionConflict: Another worker ended the session, moved it to another phase or attempt,
                or recorded a result: before the question was asked (then it was not asked), or
                during the wait (then its reply is in the history, unless the session has ended).
                Other changes saved meanwhile (a budget extended, a pause) remain.
            WriteError: The session could not be saved. Before the question was submitted, it was
                not asked; after the reply, the reply is preserved and found again.
        """
        if self._questions is None:
            raise NoQuestionChannel
        session = self._require_alone("ask")
        return self._questions.ask(
            session, questions, key=key, pause=pause, timeout_s=timeout_s, on_waiting=on_waiting
        )

    @property
    def can_ask(self) -> bool:
        """Whether `ask()` has a channel to a person."""
        return self._questions is not None

    # ------------------------------------------------------------------------------------- budget

    def record_tokens(self, tokens: int) -> BudgetState:
        """Record tokens spent, even over the budget, which the history and the log then report.

        Args:
            tokens: How many, 1 or more.

        Returns:
            The budget's state afterwards; it is true if 80 % or more is spent.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: `tokens` is not such a count.
        """
        with self._changing("record_tokens") as session:
            return session.spend(tokens, now=self._clock())

    def extend_budget(self, additional_tokens: int) -> None:
        """Allot more tokens.

        Args:
            additional_tokens: How many more, 1 or more.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: `additional_tokens` is not such a count.
        """
        with self._changing("extend_budget") as session:
            session.token_budget.extend(additional_tokens)
            event = BudgetExtended(
                additional_tokens=additional_tokens, total_budget=session.token_budget.total_budget
            )
            session.add_event(event, now=self._clock())

    def can_continue(self, required_tokens: int = 1) -> bool:
        """Return whether the session is active and its budget covers the next step.

        Args:
            required_tokens: The cost of the next step, 0 or more.

        Raises:
            NoActiveSession: No session is current.
            InvalidSession: `required_tokens` is not a valid count.
        """
        session = self._require("can_continue")
        enough = session.token_budget.can_continue(required_tokens)
        return enough and session.state is SessionState.ACTIVE

    def require_budget(self, required_tokens: int) -> None:
        """Raise unless the rest of the budget covers the next step.

        Args:
            required_tokens: The cost of the step, 0 or more.

        Raises:
            BudgetExceeded: It does not.
            NoActiveSession: No session is current.
            InvalidSession: `required_tokens` is not a valid count.
        """
        session = self._require("require_budget")
        if not session.token_budget.can_continue(required_tokens):
            raise BudgetExceeded(
                session.session_id,
                required=required_tokens,
                remaining=session.token_budget.tokens_remaining,
            )

    # ------------------------------------------------------------------------------- user data

    def describe(
        self,
        *,
        title: str | Unchanged | None = UNCHANGED,
        tags: Iterable[str] | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        remove_metadata: Iterable[str] = (),
    ) -> SessionContext:
        """Change the title, the tags and the metadata, in one save with one history entry.

        An ended session can be described, too: people tag a run by how it ended. Omitted fields
        stay unchanged; if nothing changes, nothing is saved. Removals come before additions:
        `metadata=new, remove_metadata=session.metadata` replaces the metadata.

        Args:
            title: The new title; None removes it.
            tags: The complete new tags.
            add_tags: Tags to add.
            remove_tags: Tags to remove; missing ones are ignored.
            metadata: Fields to set; the others stay. Each value is replaced, not merged, and null
                is a value: it removes no field.
            remove_metadata: Names of fields to remove; missing ones are ignored.

        Raises:
            NoActiveSession: No session is current.
            InvalidSession: An argument is invalid; every fault is listed.
        """
        change = DescriptionChange(
            title=title,
            tags=tags,
            add_tags=add_tags,
            remove_tags=remove_tags,
            metadata=metadata,
            remove_metadata=remove_metadata,
        )
        session = self._require("describe")
        with self._changes.changing(session, unless_unchanged=True):
            session.describe(change, now=self._clock())
        return session

    def set_workflow_state(self, state: Mapping[str, Any]) -> SessionContext:
        """Replace the whole workflow state; `{}` removes it.

        This adds no history entry, since a workflow does it at every step. If the state is the same
        as before, nothing is saved.

        Args:
            state: JSON values by name, at most 256 KiB in all. The given mapping is copied.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: The state is invalid; every fault is listed.
        """
        with self._changing("set_workflow_state", unless_unchanged=True) as session:
            session.set_workflow_state(state, now=self._clock())
        return session

    def update_workflow_state(
        self, values: Mapping[str, Any], *, remove: Iterable[str] = ()
    ) -> SessionContext:
        """Set some fields of the workflow state; the others stay.

        Args:
            values: The fields to set; each value is replaced, not merged.
            remove: Names of fields to remove first; missing ones are ignored.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: The resulting state is invalid; every fault is listed.
        """
        with self._changing("update_workflow_state", unless_unchanged=True) as session:
            session.set_workflow_state(
                merged(session.workflow_state, values, remove), now=self._clock()
            )
        return session

    def children(self, session_id: str | None = None) -> Iterator[SessionSummary]:
        """Yield the sessions that were made from one, sorted by id.

        These are the sessions with its id as `parent_id`: forks, and sessions created with it.

        Args:
            session_id: Their parent, which may no longer exist; the current session if None.

        Raises:
            NoActiveSession: No session is current, and no id is given.
            InvalidSessionId: The id is malformed.
            ReadError: The store refused.
        """
        parent = self._require("children").session_id if session_id is None else session_id
        wanted = SessionFilter(parent_id=validate_session_id(parent))
        after: SessionCursor | None = None
        while True:
            page = self.store.page(wanted, order=SessionOrder.ID, limit=MAX_PAGE, after=after)
            yield from page.sessions
            if page.after is None:
                return
            after = page.after

    # ---------------------------------------------------------------------------------- the record

    def add_artifact(
        self, path: str, artifact_type: str, phase: str | None = None
    ) -> SessionArtifact:
        """Record a file that the work made.

        Args:
            path: Relative to the workspace.
            artifact_type: "created" or "modified".
            phase: The phase that made it; the current phase by default.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: An argument is invalid; every fault is listed.
        """
        with self._changing("add_artifact") as session:
            return session.add_artifact(path, artifact_type, phase, now=self._clock())

    def get_artifacts(self, phase: str | None = None) -> _Artifacts:
        """Return the artifacts, oldest first: all, or those of one phase.

        Raises:
            NoActiveSession: No session is current.
        """
        return self._require("get_artifacts").get_artifacts(phase)

    def add_history(self, action: str, details: str | None = None) -> SessionContext:
        """Add a caller's own note to the history.

        No decision is based on a note, whatever its action; `record` takes events.

        Args:
            action: What happened, as a short name.
            details: More text for people, of any length.

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: An argument is invalid; every fault is listed.
        """
        with self._changing("add_history") as session:
            session.add_history(action, details=details, now=self._clock())
        return session

    def record(
        self,
        step: str | HistoryEvent,
        details: str | None = None,
        *,
        tokens: int = 0,
        artifacts: Iterable[tuple[str, str]] = (),
    ) -> SessionContext:
        """Record a step of the current phase, with its details, tokens and files, in one save.

        Args:
            step: What happened: an event (`PhaseSucceeded`, `AgentAnswered`, …), or the short name
                of a note, on which no decision is based.
            details: More text for people, of any length; an event has its own sentence.
            tokens: What it cost, 0 or more.
            artifacts: The files it made, each with "created" or "modified".

        Raises:
            NoActiveSession: No session is current.
            InvalidStateTransition: It has ended.
            InvalidSession: An argument is invalid (every fault is listed); nothing is recorded.
            SessionConflict: Another worker meanwhile ended the session, moved it to another phase
                or attempt, or recorded a result; this was not recorded. Other changes saved
                meanwhile (a budget extended, a pause) remain, and this is recorded on top of them.
            WriteError: It could not be saved.
        """
        session = self._require("record")
        session.require(*_OPEN, operation="record")
        check(count_fault("tokens", tokens, least=0))
        made = list(artifacts)
        if isinstance(step, PhaseEnded):
            step = self._checkpoints.with_snapshot(session, step)
        elif isinstance(step, InputsPlaced):
            step = self._checkpoints.with_inputs(session, step)

        def change() -> None:
            now = self._clock()
            for path, kind in made:
                session.add_artifact(path, kind, now=now)
            if tokens:
                session.spend(tokens, now=now)
            if isinstance(step, HistoryEvent):
                session.add_event(step, details=details, now=now)
            else:
                session.add_history(step, details=details, tokens=tokens, now=now)

        self._changes.record(session, change)
        return session

    def announce(self, notice: Notice) -> None:
        """Report a step that leaves nothing in the session to the log and the observers.

        Within `changes()` it is reported after the save, after the block's changes.

        Args:
            notice: What happened to the current session.

        Raises:
            NoActiveSession: No session is current.
        """
        session = self._require("announce")
        self._changes.after_save(lambda: self._events.announce(session, notice))

    def briefing(
        self,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        *,
        count_tokens: TokenCounter = most_tokens,
        shows: Collection[str] | None = None,
        may_show: Callable[[str], bool] = lambda _: True,
        work: WorkState = NOTHING_KNOWN,
        changed: str = "",
        steps: Sequence[str] = (),
    ) -> str:
        """Return the text that primes the next worker; see `harness.briefing.brief`.

        Args:
            max_tokens: The text's maximum token count, 1 or more.
            count_tokens: Counts the tokens of a text.
            shows: The user data to show; as set for the manager if None.
            may_show: Returns whether text from a program's conversations may be shown.
            work: The state of the work, from the agents' conversations.
            changed: The files changed since the session began, as `diff --stat` writes.
            steps: The last steps of the program that leads the session, as lines.

        Raises:
            NoActiveSession: No session is current.
            ValueError: `max_tokens` is less than 1, or `shows` names unknown data.
        """
        session = self._require("briefing")
        parts = self._briefing_shows if shows is None else shows
        return brief(
            session,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            shows=parts,
            may_show=may_show,
            work=work,
            changed=changed,
            steps=steps,
        )

    # ------------------------------------------------------------------------------- all sessions

    def find(
        self,
        *,
        on_unreadable: Callable[[UnreadableSession], None] | None = None,
        **filters: Unpack[AskedFilters],
    ) -> Iterator[SessionSummary]:
        """Yield the sessions that match all given filters, sorted by id.

        Args:
            state: Only those in this state, or of this name ("active", "paused", …), or in one of
                these; an empty collection filters nothing.
            workflow_type: Only those of this workflow.
            current_phase: Only those in this phase.
            older_than: Only those not changed for at least this long.
            younger_than: Only those changed within this time.
            tags: Only those with this tag, or with all of these.
            parent_id: Only those that were made from this session.
            goal: Only those with this text in their goal, in any case; three characters or more.
            title: Only those with this text in their title, likewise.
            budget_left: Only those with this much budget left: a `BudgetLeft`, or a range in tokens
                or percent ("..20%", "5000..", "10%..50%").
            on_unreadable: Called with each session that can't be read; they are logged anyway.

        Raises:
            InvalidSession: The state is unknown, a part of a goal or title is too short, or a
                budget range is invalid.
            ReadError: The base exists but can't be read.
        """
        wanted = SessionFilter.asked(self._clock(), **filters)
        for found in self.store.summaries(wanted):
            if isinstance(found, SessionSummary):
                yield found
                continue
            self._passed_over([found])
            if on_unreadable is not None:
                on_unreadable(found)

    def page(
        self,
        limit: int,
        *,
        after: SessionCursor | str | None = None,
        order: SessionOrder | str = SessionOrder.LAST_CHANGED,
        **filters: Unpack[AskedFilters],
    ) -> SessionPage:
        """Return a page of the matching sessions, in order, the last changed first by default.

        A store that sorts its sessions this way reads no more than the page. Consecutive pages have
        each session once, provided its place in the order does not change meanwhile.

        Args:
            limit: The page's maximum size, 1 to 10,000.
            after: The end of the previous page (its `after`, or that as text); None for the first
                page.
            order: The order, or its name; the same for each page.
            **filters: Those of `find()`; the same for each page.

        Raises:
            InvalidSession: There can't be such a page, or as from `find`.
            InvalidCursor: `after` is invalid, or is from a page with another order or filter.
            ReadError: The store refused.
        """
        wanted = SessionFilter.asked(self._clock(), **filters)
        page = self.store.page(
            wanted,
            order=as_order(order),
            limit=limit,
            after=SessionCursor.parse(after) if isinstance(after, str) else after,
        )
        self._passed_over(page.unreadable)
        return page

    def list(
        self, /, *, order: SessionOrder | str = SessionOrder.LAST_CHANGED, **filters: Any
    ) -> list[SessionSummary]:
        """Return all matching sessions, in order, the last changed first by default.

        Args:
            order: The order, or its name.
            **filters: Those of `find()`, and its `on_unreadable`.

        Raises: as `find`.
        """
        return in_order(self.find(**filters), as_order(order))

    def search(
        self,
        words: SearchWords | str | Iterable[str],
        *,
        limit: int = 20,
        **filters: Unpack[AskedFilters],
    ) -> SessionMatches:
        """Return the sessions that contain all of some words, the last changed first.

        Titles, goals, the details and data of histories, and the paths of artifacts are searched.
        Case is ignored, in any language; a word also matches part of a longer one.

        Args:
            words: The words as a person writes them (`parser "retry limit"`; quotes make a phrase),
                or as separate strings.
            limit: The most sessions to return, 1 to 10,000.
            **filters: Those of `find()`.

        Raises:
            InvalidSearch: There are no words, or too many.
            InvalidSession: `limit` is out of range, or as from `find`.
            ReadError: The store refused.
        """
        from ..base.search_words import SearchWords  # few programs need it
        from .views.session_search import match_sessions

        asked = SearchWords.of(words)
        wanted = SessionFilter.asked(self._clock(), **filters)
        candidates = self.store.candidates(asked, wanted)
        matches = match_sessions(candidates, self.store.load, asked, limit=limit)
        self._passed_over(matches.unreadable)
        return matches

    def events(
        self,
        after: str | None = None,
        *,
        session_id: str | None = None,
        timeout_s: float | None = None,
    ) -> EventFeed:
        """Iterate over the events of all sessions, or of one, and wait for the next ones.

        ```
        feed = manager.events(after=kept)
        for one in feed:
            print(one.event.name, one.event.session_id)
            kept = feed.cursor              # another process continues after this event
        ```

        Nothing that was saved is missed; see `EventFeed`.

        Args:
            after: Where to start, as the `cursor` of a feed; at the first entries if None.
            session_id: The one session; all of them if None.
            timeout_s: How long to wait for the next event, in seconds, before the loop ends;
                without end if None, not at all with 0.

        Raises:
            InvalidCursor: `after` is not a cursor of this store.
            InvalidSessionId: `session_id` is malformed.
        """
        from .events.event_feed import EventFeed  # few programs need it

        return EventFeed(self.store.open_feed(after, session_id=session_id), timeout_s=timeout_s)

    def end_of_events(self) -> str:
        """Return the cursor after everything that has happened so far, for `events(after=…)`.

        Raises:
            ReadError: The store refused.
        """
        return self.store.end_of_feed()

    def cleanup_old_sessions(self, days: float, dry_run: bool = False) -> _Ids:
        """Delete sessions that ended more than `days` ago.

        A session that is active, paused, unreadable, in use or changed meanwhile is never deleted.
        Each deletion is in the audit log `.prune/audit.jsonl` of the base before it happens.

        Args:
            days: The minimum time since they ended, in days, 0 or more; 0 selects all that have
                ended.
            dry_run: Delete nothing, only return what would be deleted.

        Returns:
            The ids of the sessions that were, or would be, deleted, oldest first; including one
            that is out of every listing although a file of it could not be removed.

        Raises:
            InvalidSession: `days` is not a number of 0 or more, or `dry_run` is not a bool.
            PruneRootUnusable: The base can't be read or written; nothing was deleted.
        """
        if faults := clean_up_faults(days, dry_run):
            raise InvalidSession(faults)
        deleted = self.store.delete_ended(days=days, dry_run=dry_run, clock=self._clock)
        if deleted and not dry_run:
            self._checkpoints.forget_deleted()
        notice = SessionsCleanedUp(days=days, dry_run=dry_run, count=len(deleted))
        self._events.announce(None, notice)
        return deleted

    # ------------------------------------------------------------------------------------ helpers

    def _changing(
        self, operation: str, *, unless_unchanged: bool = False
    ) -> AbstractContextManager[SessionContext]:
        """Yield the current session, which must not have ended; save what the block changes."""
        session = self._require(operation)
        session.require(*_OPEN, operation=operation)
        return self._changes.changing(session, unless_unchanged=unless_unchanged)

    def _passed_over(self, unreadable: Iterable[UnreadableSession]) -> None:
        for one in unreadable:
            self._events.announce(one.session_id, SessionPassedOver(error=str(one.error)))

    def _refuse_within_changes(self, operation: str) -> None:
        if self._changes.together_on is not None:
            raise ChangesUnsaved(operation, session_id=self._changes.together_on)

    def _require_alone(self, operation: str) -> SessionContext:
        """Return the current session for an operation that can't be combined with other changes."""
        self._refuse_within_changes(operation)
        return self._require(operation)

    def _file_of(self, session: SessionContext) -> Path:
        return self.store.session_directory(session.session_id) / SESSION_FILE

    def _require(self, operation: str) -> SessionContext:
        if self._current is None:
            raise NoActiveSession(operation)
        return self._current
