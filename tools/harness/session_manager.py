"""The application service: one session at a time, every change of it on disk before it is told.

The way of every change is the same: change the session in memory, save it once, say so in the log.
If the save fails, memory is put back to what the disk has, and the error goes to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from attrs import evolve, fields, frozen

from tools.durable import ReadError, WriteError
from tools.harness.asking import (
    ASKED,
    NOT_ASKED,
    OUTCOMES,
    asked_details,
    check_key,
    find_asked,
    find_reply,
    is_paused_for,
    pause_reason,
    question_key,
    reply_details,
)
from tools.harness.briefing import DEFAULT_MAX_TOKENS, brief, estimate_tokens
from tools.harness.errors import (
    HarnessError,
    NoActiveSession,
    QuestionWaits,
    SessionAlreadyActive,
    SessionConflict,
    SessionCorrupted,
)
from tools.harness.ports import (
    Clock,
    PersonQuestion,
    PersonReply,
    PhaseExecutor,
    PhaseResult,
    QuestionDesk,
    TokenCounter,
)
from tools.harness.pruning import CleanUpEvents, HarnessTarget
from tools.harness.session_domain import (
    DEFAULT_TOKEN_BUDGET,
    MAX_PATH_CHARS,
    InvalidSession,
    InvalidStateTransition,
    SessionArtifact,
    SessionContext,
    SessionState,
    TokenBudget,
    new_session_id,
    utc_now,
)
from tools.harness.session_store import SessionStore, SessionSummary, UnreadableSession
from tools.prune import PruneRootMissing, RetentionPolicy, prune

_HOURS_A_DAY: Final = 24
_OUTPUT_KEPT: Final = 4000
"""How many characters of a phase's output are kept in the history, from its end."""
_FILES_NAMED: Final = 20
_ARTIFACTS_KEPT: Final = 1000
"""How many files of one run are recorded one by one; of the rest, their number."""
_RECORD_ATTEMPTS: Final = 5
"""How often a result is tried to be recorded when others save the session at the same time."""
_RESULTS: Final = frozenset({"phase_succeeded", "phase_failed"})
_SESSION_FIELDS: Final = tuple(one.name for one in fields(SessionContext))
_Ids = list[str]
_OPEN: Final = (SessionState.ACTIVE, SessionState.PAUSED)


class NoPhaseExecutor(HarnessError):
    """`run_phase()` of a manager that was given nothing to run phase work with."""

    def __init__(self) -> None:
        super().__init__(
            "this manager has no phase executor: give it one (SessionManager(executor=...)) or "
            "build it with tools.bootstrap.build_manager()"
        )


class NoQuestionDesk(HarnessError):
    """`ask()` of a manager that was given nowhere to put questions."""

    def __init__(self) -> None:
        super().__init__(
            "this manager has no question desk: give it one (SessionManager(desk=...)) or build it "
            "with tools.bootstrap.build_manager()"
        )


@frozen
class _Snapshot:
    """What a change may alter, so that it can be taken back. The lists only ever grow."""

    state: SessionState
    updated_at: datetime
    completed_at: datetime | None
    current_phase: str | None
    attempt_number: int
    total_budget: int
    tokens_used: int
    artifacts: int
    history: int

    @classmethod
    def of(cls, session: SessionContext) -> _Snapshot:
        budget = session.token_budget
        return cls(
            session.state,
            session.updated_at,
            session.completed_at,
            session.current_phase,
            session.attempt_number,
            budget.total_budget,
            budget.tokens_used,
            len(session.artifacts),
            len(session.history),
        )

    def restore(self, session: SessionContext) -> None:
        session.state = self.state
        session.updated_at = self.updated_at
        session.completed_at = self.completed_at
        session.current_phase = self.current_phase
        session.attempt_number = self.attempt_number
        session.token_budget = TokenBudget(self.total_budget, self.tokens_used)
        del session.artifacts[self.artifacts :]
        del session.history[self.history :]


class SessionManager:
    """Leads one session through its life.

    Guarantees: when a method returns, what it did is on disk; when it raises, the session is, in
    memory and on disk, what it was before the call (a `WriteError` that is `visible` excepted,
    which says so). A session held from an earlier call stays the current one; it is changed in
    place.

    Not thread-safe: one manager belongs to one worker. Any number of managers, in any number of
    processes, may lead the same session; whoever comes second gets a `SessionConflict` and calls
    `reload()`.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        executor: PhaseExecutor | None = None,
        desk: QuestionDesk | None = None,
        clock: Clock = utc_now,
        token: Callable[[], str] | None = None,
    ) -> None:
        """Make a manager with no session.

        Args:
            store: Where sessions are kept; `.agentforge/sessions` by default.
            executor: What runs phase work; only `run_phase()` needs it.
            desk: Where questions to a person are put; only `ask()` needs it.
            clock: The time.
            token: Gives the random part of new ids.
        """
        self.store = store if store is not None else SessionStore()
        self._executor = executor
        self._desk = desk
        self._clock = clock
        self._token = token
        self._current: SessionContext | None = None
        self._log = structlog.get_logger("agentforge.session")

    # ------------------------------------------------------------------------- the session itself

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
        attachments: Mapping[str, bytes] | None = None,
    ) -> SessionContext:
        """Begin a session and save it.

        Args:
            workflow_type: "spec", "tdflow", …, or None.
            initial_phase: The phase to begin in, or None.
            token_budget: Tokens allotted.
            goal: What the work is for; a briefing begins with it.
            attachments: Files to keep beside the session, by name; they appear with it.

        Raises:
            SessionAlreadyActive: The current session has not ended.
            InvalidSession: With everything that is wrong with the arguments.
            WriteError: It could not be saved; there is no new session (unless the error says
                `visible`: then it is there, and current, but may not survive a power failure).
        """
        if self._current is not None and not self._current.state.is_terminal:
            raise SessionAlreadyActive(self._current.session_id)
        now = self._clock()
        session = SessionContext.create(
            workflow_type,
            initial_phase,
            token_budget,
            goal=goal,
            session_id=new_session_id(now, self._token),
            now=now,
        )
        try:
            with self._told_conflicts(session):
                self.store.save(session, attachments=attachments)
        except WriteError as error:
            if error.visible:  # it is there, and had better be led than forgotten
                self._current = session
            raise
        self._current = session
        self._log.info(
            "session.created",
            session_id=session.session_id,
            workflow_type=workflow_type,
            phase=initial_phase,
            token_budget=token_budget,
        )
        return session

    def load(self, session_id: str) -> SessionContext | None:
        """Make a session from the store the current one.

        Returns:
            The session, or None if there is none of this id (the current one then stays).

        Raises:
            InvalidSessionId: It is no id.
            SessionCorrupted: Its file is no session.
            ReadError: Its file could not be read.
        """
        session = self.store.load(session_id)
        if session is None:
            return None
        self._current = session
        self._log.info(
            "session.loaded",
            session_id=session_id,
            state=session.state.value,
            phase=session.current_phase,
            revision=session.revision,
        )
        return session

    def reload(self) -> SessionContext:
        """Read the current session anew, as after a `SessionConflict`.

        Raises:
            NoActiveSession: There is none, or it was deleted (then none is current any more).
            SessionCorrupted: Its file is no session any more.
        """
        session = self._require("reload")
        found = self.store.load(session.session_id)
        if found is None:
            self._current = None
            raise NoActiveSession("reload")
        self._current = found
        return found

    def release(self) -> None:
        """Let go of the current session as it is; another worker may load it."""
        self._current = None

    def save(self) -> Path:
        """Save the current session as it is in memory.

        Raises:
            NoActiveSession: There is none.
            SessionConflict: Somebody else saved it since.
            WriteError: It could not be saved.
        """
        session = self._require("save")
        with self._told_conflicts(session):
            return self.store.save(session)

    # --------------------------------------------------------------------------------- life cycle

    def pause(self, reason: str | None = None) -> SessionContext:
        """Stop the session until it is resumed.

        Args:
            reason: Why; it goes into the history and the next briefing.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It is not active.
        """
        return self._transition("pause", reason)

    def resume(self) -> SessionContext:
        """Go on with a paused session.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It is not paused.
        """
        return self._transition("resume", None)

    def complete(self) -> SessionContext:
        """End the session well, for good.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It is not active.
        """
        return self._transition("complete", None)

    def abort(self, reason: str | None = None) -> SessionContext:
        """End the session badly, for good.

        Args:
            reason: Why; it goes into the history.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended already.
        """
        return self._transition("abort", reason)

    def _transition(self, operation: str, details: str | None) -> SessionContext:
        session = self._require(operation)
        came_from = session.state
        with self._changing(session):
            session.apply(operation, details=details, now=self._clock())
        self._log.info(
            "session.state_changed",
            session_id=session.session_id,
            operation=operation,
            from_state=came_from.value,
            to_state=session.state.value,
            reason=details,
        )
        return session

    # ------------------------------------------------------------------------------------- phases

    def advance_phase(self, new_phase: str) -> SessionContext:
        """Go on to another phase, at its first attempt; a checkpoint.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It is not active.
            InvalidSession: `new_phase` is no name.
        """
        session = self._require("advance_phase")
        came_from = session.current_phase
        with self._changing(session):
            session.enter_phase(new_phase, now=self._clock())
        self._log.info(
            "phase.advanced",
            session_id=session.session_id,
            from_phase=came_from,
            to_phase=new_phase,
        )
        self._tell_checkpoint(session)
        return session

    def retry_phase(self, reason: str | None = None) -> SessionContext:
        """Begin another attempt at the current phase.

        Args:
            reason: What to do differently; it goes into the history.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It is not active.
        """
        session = self._require("retry_phase")
        with self._changing(session):
            session.next_attempt(reason=reason, now=self._clock())
        self._log.info(
            "phase.retried",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
        )
        return session

    def run_phase(
        self,
        code: str,
        *,
        tokens: int = 0,
        deadline_s: float | None = None,
        fuel: int | None = None,
        judge: Callable[[PhaseResult], str | None] | None = None,
    ) -> PhaseResult:
        """Run the work of the current phase and record what became of it, in one save.

        The code runs first; then the files it made, the tokens, and the result go into the
        session together. A worker that dies in between leaves a session that knows nothing of
        the run, so the work is run again: the code runs at least once, its result is recorded
        exactly once.

        Args:
            code: Python source; it runs in the session's workspace.
            tokens: What the phase is charged with, 0 or more.
            deadline_s: Wall-clock limit in seconds; the executor's default if None.
            fuel: Limit in units of fuel; the executor's default if None.
            judge: Decides whether the result is a success: returns None, or says why not. By
                default a result is judged by its own `success`.

        Returns:
            The result, with `success` as it was judged.

        Raises:
            NoPhaseExecutor: The manager has no executor.
            NoActiveSession: There is none.
            InvalidStateTransition: It is not active.
            InvalidSession: `tokens` is no count; nothing was run.
            SessionConflict: While the code ran, somebody else ended the session, took it to
                another phase or attempt, or recorded a result; this one was not recorded. What
                else was saved meanwhile (a budget extended, a pause) is kept, and the result is
                recorded on top of it.
            WriteError: The result could not be saved.
        """
        if self._executor is None:
            raise NoPhaseExecutor
        session = self._require("run_phase")
        session.require(SessionState.ACTIVE, operation="run_phase")
        TokenBudget(session.token_budget.total_budget, 0).record_usage(tokens)
        self._log.info(
            "phase.started",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
        )
        result = self._executor.execute(
            code, session_id=session.session_id, deadline_s=deadline_s, fuel=fuel
        )
        problem = judge(result) if judge is not None else _own_problem(result)
        judged = _with_success(result, problem is None)
        for again in range(_RECORD_ATTEMPTS):
            before = session.token_budget.is_warning, session.token_budget.is_exhausted
            try:
                self._record_result(session, judged, problem, tokens)
                break
            except SessionConflict:
                if again + 1 == _RECORD_ATTEMPTS or not self._catch_up(session):
                    raise
        self._log.info(
            "phase.succeeded" if problem is None else "phase.failed",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
            exit_code=result.exit_code,
            trapped=result.trapped,
            duration_s=round(result.duration_s, 3),
            fuel_consumed=result.fuel_consumed,
            problem=problem,
        )
        self._tell_checkpoint(session)
        self._tell_budget(session, *before)
        return judged

    def _record_result(
        self, session: SessionContext, result: PhaseResult, problem: str | None, tokens: int
    ) -> None:
        with self._changing(session):
            now = self._clock()
            known = len(session.artifacts)
            for path, kind in _artifacts_of(result):
                session.add_artifact(path, kind, now=now)
            details = _tell(
                result,
                problem,
                attempt=session.attempt_number,
                tokens=tokens,
                recorded=len(session.artifacts) - known,
            )
            session.token_budget.record_usage(tokens)
            session.add_history(
                "phase_succeeded" if problem is None else "phase_failed",
                details=details,
                now=now,
            )

    def _catch_up(self, session: SessionContext) -> bool:
        """Take over what somebody else saved while a phase ran, if its result still belongs there.

        A budget extended or a session paused meanwhile is no reason to lose the work; another
        phase or attempt, or an end, is.
        """
        try:
            found = self.store.load(session.session_id)
        except (ReadError, SessionCorrupted):
            return False  # the conflict is what the caller is told
        if (
            found is None
            or found.state.is_terminal
            or found.current_phase != session.current_phase
            or found.attempt_number != session.attempt_number
            or found.history[: len(session.history)] != session.history
            or any(entry.action in _RESULTS for entry in found.history[len(session.history) :])
        ):
            return False
        self._take_over(session, found)
        return True

    # ---------------------------------------------------------------------------------- a person

    def ask(
        self,
        questions: Sequence[PersonQuestion],
        *,
        key: str | None = None,
        pause: bool = False,
        timeout_s: float | None = None,
        on_waiting: Callable[[str], object] = lambda _: None,
    ) -> PersonReply:
        """Ask a person and wait for the reply.

        The question's id is in the session's history, on disk, before the person can see it. A
        worker that dies while it waits loses nothing: when the next one asks the same (the same
        words in the same phase and attempt, or the same `key`), it takes up the question that
        waits, or gets the reply at once. So nobody is asked twice.

        Args:
            questions: What to ask, 1 or more.
            key: Names what is asked, in this session; by default its words, the phase and the
                attempt. Give another key to ask the same again.
            pause: Pause the session while it waits, so that nobody goes on with it meanwhile; the
                reply resumes it.
            timeout_s: The longest wait, in seconds; None waits without end.
            on_waiting: Is called with the question's id when the person can see it and the wait
                begins; not where the reply is known already.

        Returns:
            What became of the questions. A rejection is a reply, too, and so is that nobody can
            answer any more: withdrawn or gone ("abandoned"), or too late ("timed_out").

        Raises:
            NoQuestionDesk: The manager has no desk.
            NoActiveSession: There is none.
            InvalidStateTransition: The session has ended, or is paused for another reason.
            ValueError: The key is none. The desk's own error says what is wrong with the questions.
            QuestionWaits: There is no reply yet; the question waits on, and a session that was
                paused for it stays so.
            SessionConflict: Somebody else ended the session, took it to another phase or attempt,
                or recorded a result: before the question was asked (then nobody was asked), or
                while it waited (then its reply is in the history, unless the session has ended).
                What else was saved meanwhile (a budget extended, a pause) is kept.
            WriteError: The session could not be saved. Before the question was asked nobody was
                asked; after the reply, it is kept and found again.
        """
        if self._desk is None:
            raise NoQuestionDesk
        session = self._require("ask")
        asked = tuple(questions)
        chosen = question_key(session, asked) if key is None else check_key(key)
        question_id = self._asked(self._desk, session, chosen, asked, pause=pause)
        known = find_reply(session, question_id)
        if known is not None:
            return self._found_again(self._desk, known)
        if not is_paused_for(session, question_id):
            session.require(SessionState.ACTIVE, operation="ask")
        self._put(self._desk, session, question_id, chosen, asked)
        on_waiting(question_id)
        try:
            reply = self._desk.wait(question_id, timeout_s)
        except LookupError as error:  # it was put, so somebody took it away
            reply = PersonReply(
                question_id=question_id, outcome="abandoned", reason=f"it is gone ({error})"
            )
        if reply is None:
            raise QuestionWaits(
                session.session_id, question_id=question_id, timeout_s=timeout_s or 0.0
            )
        self._record_reply(session, reply)
        return reply

    @property
    def can_ask(self) -> bool:
        """Whether `ask()` has a desk to put questions on."""
        return self._desk is not None

    def _asked(
        self,
        desk: QuestionDesk,
        session: SessionContext,
        key: str,
        questions: Sequence[PersonQuestion],
        *,
        pause: bool,
    ) -> str:
        """Return the id of what is asked under a key; record it if nobody did."""
        own_id = desk.id_for(f"{session.session_id}/{key}")
        for again in range(_RECORD_ATTEMPTS):
            question_id = find_asked(session, key, own_id)
            if question_id is not None:
                return question_id
            session.require(SessionState.ACTIVE, operation="ask")
            desk.check(questions)
            try:
                self._record_question(session, own_id, key, questions, pause=pause)
                break
            except SessionConflict:
                if again + 1 == _RECORD_ATTEMPTS or not self._catch_up(session):
                    raise
        return own_id

    @staticmethod
    def _found_again(desk: QuestionDesk, known: PersonReply) -> PersonReply:
        """Return a reply that is in the history with its answers, if the desk still has them."""
        try:
            return desk.wait(known.question_id, 0.0) or known
        except LookupError:
            return known

    def _record_question(
        self,
        session: SessionContext,
        question_id: str,
        key: str,
        questions: Sequence[PersonQuestion],
        *,
        pause: bool,
    ) -> None:
        details = _storable(asked_details(question_id, key, questions))
        with self._changing(session):
            session.add_history(ASKED, details=details, now=self._clock())
            if pause:
                session.apply("pause", details=pause_reason(question_id), now=self._clock())
        self._log.info(
            "question.recorded",
            session_id=session.session_id,
            question_id=question_id,
            paused=pause,
        )

    def _put(
        self,
        desk: QuestionDesk,
        session: SessionContext,
        question_id: str,
        key: str,
        questions: Sequence[PersonQuestion],
    ) -> None:
        try:
            desk.put(question_id, questions, call_id=session.session_id)
        except Exception as error:
            with self._changing(session):
                session.add_history(
                    NOT_ASKED,
                    details=_storable(f"question {question_id}, key {key}\n{error}"),
                    now=self._clock(),
                )
                if is_paused_for(session, question_id):
                    session.apply("resume", now=self._clock())
            raise

    def _record_reply(self, session: SessionContext, reply: PersonReply) -> None:
        for again in range(_RECORD_ATTEMPTS):
            if find_reply(session, reply.question_id) is not None:
                return  # another worker recorded it
            try:
                with self._changing(session):
                    self._add_reply(session, reply)
                break
            except SessionConflict:
                if again + 1 == _RECORD_ATTEMPTS:
                    raise
                if not self._catch_up(session):
                    self._keep_reply(session.session_id, reply)
                    raise
        self._tell_reply(session.session_id, reply)

    def _keep_reply(self, session_id: str, reply: PersonReply) -> None:
        """Put a reply into the history of a session that is led by somebody else by now.

        The session in memory stays as it was, so that nothing of this worker's is saved over what
        that one does.
        """
        for _ in range(_RECORD_ATTEMPTS):
            found = self.store.load(session_id)
            if (
                found is None
                or found.state.is_terminal  # there is nothing to go on with
                or find_reply(found, reply.question_id) is not None
            ):
                return
            self._add_reply(found, reply)
            try:
                self.store.save(found)
            except SessionConflict:
                continue
            self._tell_reply(session_id, reply)
            return

    def _add_reply(self, session: SessionContext, reply: PersonReply) -> None:
        session.add_history(
            OUTCOMES[reply.outcome], details=_storable(reply_details(reply)), now=self._clock()
        )
        if is_paused_for(session, reply.question_id):
            session.apply("resume", now=self._clock())

    def _tell_reply(self, session_id: str, reply: PersonReply) -> None:
        self._log.info(
            OUTCOMES[reply.outcome].replace("_", ".", 1),
            session_id=session_id,
            question_id=reply.question_id,
        )

    @staticmethod
    def _take_over(session: SessionContext, found: SessionContext) -> None:
        for name in _SESSION_FIELDS:
            setattr(session, name, getattr(found, name))

    def checkpoint_session(self) -> Path:
        """Save the session where it is, with an entry in its history.

        Returns:
            The path of its file.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
        """
        session = self._require("checkpoint_session")
        session.require(*_OPEN, operation="checkpoint_session")
        with self._changing(session):
            session.add_history("checkpoint", now=self._clock())
        self._tell_checkpoint(session)
        return self.store.session_path(session.session_id)

    # ------------------------------------------------------------------------------------- budget

    def record_tokens(self, tokens: int) -> bool:
        """Record tokens spent.

        Args:
            tokens: How many, 0 or more.

        Returns:
            True if 80 % or more of the budget is spent now.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
            InvalidSession: `tokens` is no count.
        """
        session = self._require("record_tokens")
        session.require(*_OPEN, operation="record_tokens")
        before = session.token_budget.is_warning, session.token_budget.is_exhausted
        with self._changing(session):
            session.token_budget.record_usage(tokens)
            session.touch(self._clock())
        self._tell_budget(session, *before)
        return session.token_budget.is_warning

    def extend_budget(self, additional_tokens: int) -> None:
        """Allot more tokens.

        Args:
            additional_tokens: How many more, 1 or more.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
            InvalidSession: `additional_tokens` is no such count.
        """
        session = self._require("extend_budget")
        session.require(*_OPEN, operation="extend_budget")
        with self._changing(session):
            session.token_budget.extend(additional_tokens)
            session.add_history(
                "budget_extended",
                details=f"by {additional_tokens} to {session.token_budget.total_budget} tokens",
                now=self._clock(),
            )
        self._log.info(
            "budget.extended",
            session_id=session.session_id,
            additional_tokens=additional_tokens,
            total_budget=session.token_budget.total_budget,
        )

    def can_continue(self, required_tokens: int = 1) -> bool:
        """Tell whether the session is active and what is left of its budget covers the next step.

        Args:
            required_tokens: What the next step will cost, 0 or more.

        Raises:
            NoActiveSession: There is none.
            InvalidSession: `required_tokens` is no count.
        """
        session = self._require("can_continue")
        enough = session.token_budget.can_continue(required_tokens)
        return enough and session.state is SessionState.ACTIVE

    # ---------------------------------------------------------------------------------- the record

    def add_artifact(self, path: str, artifact_type: str) -> SessionArtifact:
        """Record a file that the current phase made.

        Args:
            path: Relative to the workspace.
            artifact_type: "created" or "modified".

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
            InvalidSession: With everything that is wrong with the arguments.
        """
        session = self._require("add_artifact")
        session.require(*_OPEN, operation="add_artifact")
        with self._changing(session):
            return session.add_artifact(path, artifact_type, now=self._clock())

    def add_history(self, action: str, details: str | None = None) -> SessionContext:
        """Add an entry of the caller's own to the history.

        Args:
            action: What happened, as a short name.
            details: More to say, of any length.

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
            InvalidSession: With everything that is wrong with the arguments.
        """
        session = self._require("add_history")
        session.require(*_OPEN, operation="add_history")
        with self._changing(session):
            session.add_history(action, details=details, now=self._clock())
        return session

    def record(
        self,
        action: str,
        details: str | None = None,
        *,
        tokens: int = 0,
        artifacts: Iterable[tuple[str, str]] = (),
    ) -> SessionContext:
        """Record a step of the current phase with all that belongs to it, in one save.

        Args:
            action: What happened, as a short name ("phase_succeeded", "agent_answered", …).
            details: More to say, of any length.
            tokens: What it cost, 0 or more.
            artifacts: The files it made, each with "created" or "modified".

        Raises:
            NoActiveSession: There is none.
            InvalidStateTransition: It has ended.
            InvalidSession: With everything that is wrong with the arguments; nothing is recorded.
            SessionConflict: Meanwhile somebody else ended the session, took it to another phase or
                attempt, or recorded a result; this was not recorded. What else was saved meanwhile
                (a budget extended, a pause) is kept, and this is recorded on top of it.
            WriteError: It could not be saved.
        """
        session = self._require("record")
        session.require(*_OPEN, operation="record")
        made = list(artifacts)
        before = session.token_budget.is_warning, session.token_budget.is_exhausted
        for again in range(_RECORD_ATTEMPTS):
            before = session.token_budget.is_warning, session.token_budget.is_exhausted
            try:
                with self._changing(session):
                    now = self._clock()
                    for path, kind in made:
                        session.add_artifact(path, kind, now=now)
                    session.token_budget.record_usage(tokens)
                    session.add_history(action, details=details, now=now)
                break
            except SessionConflict:
                if again + 1 == _RECORD_ATTEMPTS or not self._catch_up(session):
                    raise
        self._log.info(
            "session.recorded",
            session_id=session.session_id,
            action=action,
            phase=session.current_phase,
            attempt=session.attempt_number,
            tokens=tokens,
        )
        if action in _RESULTS:
            self._tell_checkpoint(session)
        self._tell_budget(session, *before)
        return session

    def briefing(
        self,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        *,
        count_tokens: TokenCounter = estimate_tokens,
    ) -> str:
        """Write the text that primes the next worker; see `tools.harness.briefing.brief`.

        Raises:
            NoActiveSession: There is none.
            ValueError: `max_tokens` is less than 1.
        """
        session = self._require("briefing")
        return brief(session, max_tokens=max_tokens, count_tokens=count_tokens)

    # ------------------------------------------------------------------------------- all sessions

    def find(
        self,
        *,
        state: SessionState | None = None,
        workflow_type: str | None = None,
        older_than: timedelta | None = None,
        younger_than: timedelta | None = None,
        on_unreadable: Callable[[UnreadableSession], None] | None = None,
    ) -> Iterator[SessionSummary]:
        """Go through the sessions that fit everything that is given, sorted by id.

        Args:
            state: Only those in this state.
            workflow_type: Only those of this workflow.
            older_than: Only those not changed for at least this long.
            younger_than: Only those changed within this time.
            on_unreadable: Called with each session that can't be read; they are logged anyway.

        Raises:
            ReadError: The base is there and can't be read.
        """
        now = self._clock()
        for found in self.store.summaries():
            if isinstance(found, UnreadableSession):
                self._log.warning(
                    "session.unreadable", session_id=found.session_id, error=str(found.error)
                )
                if on_unreadable is not None:
                    on_unreadable(found)
                continue
            head = found.head
            age = now - head.updated_at
            if (
                (state is None or head.state is state)
                and (workflow_type is None or head.workflow_type == workflow_type)
                and (older_than is None or age >= older_than)
                and (younger_than is None or age <= younger_than)
            ):
                yield found

    def list(self, **filters: Any) -> list[SessionSummary]:
        """Return the sessions that fit, newest first; the filters are those of `find()`."""
        found = list(self.find(**filters))
        found.sort(key=lambda one: (one.head.updated_at, one.session_id), reverse=True)
        return found

    def cleanup_old_sessions(self, days: float, dry_run: bool = False) -> _Ids:
        """Delete sessions that ended at least `days` ago.

        A session that is active or paused, can't be read, is worked in, or is changed by somebody
        else meanwhile is never deleted. Each deletion is in the audit log `.prune/audit.jsonl` of
        the base before it happens.

        Args:
            days: How long ago they ended, in days, 0 or more.
            dry_run: True: delete nothing, only say what would go.

        Returns:
            The ids of the deleted (or, in a dry run, would-be deleted) sessions, oldest first. One
            that is out of sight, but with a file that resists, is among them.

        Raises:
            ValueError: `days` is negative or no number.
            PruneBusy: Another clean-up of the same base is going on; nothing was deleted.
            PruneRootUnusable: The base can't be read or written; nothing was deleted.
        """
        if isinstance(days, bool) or not days >= 0:
            raise ValueError(f"days: expected 0 or more, got {days!r}")
        events = CleanUpEvents(self._log)
        try:
            result = prune(
                HarnessTarget(self.store.base_path),
                RetentionPolicy(max_age_hours=days * _HOURS_A_DAY),
                dry_run=dry_run,
                observer=events,
                outside=self.store.outside(self._clock),
            )
        except PruneRootMissing:
            gone: _Ids = []
        else:
            out = {*result.deleted_sessions, *result.unfinished_sessions}
            planned = (one.candidate.session_id for one in result.decisions)
            gone = [session_id for session_id in planned if session_id in out]
        if not dry_run:
            self.store.forget(gone)
        self._log.info("sessions.cleaned_up", days=days, dry_run=dry_run, count=len(gone))
        return gone

    # ------------------------------------------------------------------------------------ helpers

    def _require(self, operation: str) -> SessionContext:
        if self._current is None:
            raise NoActiveSession(operation)
        return self._current

    @contextmanager
    def _changing(self, session: SessionContext) -> Iterator[None]:
        """Save what the block changes; if anything fails, take it back."""
        snapshot = _Snapshot.of(session)
        try:
            yield
            with self._told_conflicts(session):
                self.store.save(session)
        except WriteError as error:
            if not error.visible:
                snapshot.restore(session)
            raise
        except BaseException:
            snapshot.restore(session)
            raise

    @contextmanager
    def _told_conflicts(self, session: SessionContext) -> Iterator[None]:
        try:
            yield
        except SessionConflict as error:
            self._log.warning(
                "session.conflict",
                session_id=session.session_id,
                expected_revision=error.expected_revision,
                actual_revision=error.actual_revision,
            )
            raise
        except WriteError as error:
            self._log.error(
                "session.save_failed",
                session_id=session.session_id,
                path=str(error.path),
                operation=error.operation,
                errno=error.errno,
            )
            raise

    def _tell_checkpoint(self, session: SessionContext) -> None:
        self._log.info(
            "session.checkpoint",
            session_id=session.session_id,
            phase=session.current_phase,
            revision=session.revision,
        )

    def _tell_budget(self, session: SessionContext, was_warning: bool, was_exhausted: bool) -> None:
        budget = session.token_budget
        for crossed, event in (
            (budget.is_warning and not was_warning, "budget.warning"),
            (budget.is_exhausted and not was_exhausted, "budget.exhausted"),
        ):
            if crossed:
                self._log.warning(
                    event,
                    session_id=session.session_id,
                    tokens_used=budget.tokens_used,
                    total_budget=budget.total_budget,
                )


def _own_problem(result: PhaseResult) -> str | None:
    if result.success:
        return None
    problems = result.limit_problems()
    if result.trapped is None:
        problems.insert(0, f"exit code {result.exit_code}")
    return ", ".join(problems)


def _with_success(result: PhaseResult, success: bool) -> PhaseResult:
    return result if result.success is success else evolve(result, success=success)


def _artifacts_of(result: PhaseResult) -> Iterator[tuple[str, str]]:
    """Name the files to record: whatever the code did, what is recorded stays bounded and valid."""
    made = [(path, "created") for path in result.files_created]
    made += [(path, "modified") for path in result.files_modified]
    for path, kind in made[:_ARTIFACTS_KEPT]:
        name = _storable(path)
        if len(name) <= MAX_PATH_CHARS:
            yield name, kind


def _storable(text: str) -> str:
    """Spell out what UTF-8 can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _tell(
    result: PhaseResult, problem: str | None, *, attempt: int, tokens: int, recorded: int
) -> str:
    """Tell of a run, for the history: the facts on the first line, then the end of its output."""
    facts = [f"attempt {attempt}", problem or f"exit code {result.exit_code}"]
    facts.append(f"{result.duration_s:.2f} s")
    if result.fuel_consumed is not None:
        facts.append(f"fuel {result.fuel_consumed}")
    if tokens:
        facts.append(f"{tokens} tokens")
    if problem is None:
        facts += result.limit_problems()  # it coped with them, or did not notice
    for paths, word in (
        (result.files_created, "created"),
        (result.files_modified, "modified"),
        (result.files_deleted, "deleted"),
    ):
        if paths:
            named = ", ".join(paths[:_FILES_NAMED])
            more = f" and {len(paths) - _FILES_NAMED} more" if len(paths) > _FILES_NAMED else ""
            facts.append(f"{word} {named}{more}")
    unrecorded = len(result.files_created) + len(result.files_modified) - recorded
    if unrecorded > 0:
        facts.append(f"{unrecorded} of these files are not among the artifacts")
    lines = ["; ".join(facts)]
    for label, output in (("stderr", result.stderr), ("stdout", result.stdout)):
        text = output.rstrip()
        if text:
            cut = len(text) > _OUTPUT_KEPT or result.truncated
            lines.append(f"{label}{' (its end)' if cut else ''}:\n{text[-_OUTPUT_KEPT:]}")
    return _storable("\n".join(lines))


__all__ = [
    "InvalidSession",
    "InvalidStateTransition",
    "NoActiveSession",
    "NoPhaseExecutor",
    "NoQuestionDesk",
    "SessionAlreadyActive",
    "SessionConflict",
    "SessionManager",
]
