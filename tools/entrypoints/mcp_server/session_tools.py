"""The harness as tools: begin, show, brief and lead durable sessions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from attrs import frozen

from ...clock import utc_now
from ...harness import (
    Clock,
    SessionConflict,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
    UnreadableSession,
)
from ...result import Failure, attempt
from . import arguments as takes
from . import results as gives
from .calls import Call, Workers
from .tool import Answer, Tool

_Result = TypeVar("_Result")

_REPEATS: Final = 12
"""How often a change is repeated after somebody else changed the session.

Agents call tools in parallel, and several servers may lead one session: of 1,290 changes, made 10
to 16 at once, 3 were overtaken four times in a row."""
_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.1
"""The longest pause before a change is repeated, at first and at the most, in seconds."""
_SHOWN_DETAILS: Final = 300


@frozen(kw_only=True)
class SessionTools:
    """Tools over the sessions of one store.

    Each call leads its session with a manager of its own, so that calls and clients never share
    one. Calls that change one session run one after the other; what a call says explicitly holds
    for the session as it is then, so it is repeated when another process was faster.

    Attributes:
        store: Where the sessions are.
        workers: Where the work runs.
        clock: The time.
        sleep: Pauses a worker thread for so many seconds.
        chance: Gives numbers from 0 to 1, so that those who met once don't meet again.
    """

    store: SessionStore
    workers: Workers
    clock: Clock = utc_now
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def lead(self, session_id: str) -> SessionManager:
        """Return a manager that leads a session.

        Raises:
            SessionNotFound: There is none of this id.
        """
        manager = SessionManager(self.store, clock=self.clock)
        if manager.load(session_id) is None:
            raise SessionNotFound(session_id, path=self.store.base_path)
        return manager

    async def change(
        self, call: Call, session_id: str, act: Callable[[SessionManager], _Result]
    ) -> tuple[SessionContext, _Result]:
        """Change a session when it is this call's turn; again if another process was faster.

        Args:
            call: Whose turn it is.
            session_id: The session; no other one is touched.
            act: Makes the change with a manager that leads the session.

        Raises:
            SessionNotFound: There is none of this id.
            SessionConflict: Other processes were faster each time; nothing was written.
        """

        def work() -> tuple[SessionContext, _Result]:
            longest_s = _FIRST_PAUSE_S
            for remaining in range(_REPEATS, -1, -1):
                manager = self.lead(session_id)
                try:
                    result = act(manager)
                except SessionConflict:
                    if not remaining:
                        raise
                    self.sleep(longest_s * self.chance())
                    longest_s = min(2 * longest_s, _LONGEST_PAUSE_S)
                else:
                    session = manager.current_session
                    assert session is not None  # noqa: S101 (it was loaded above)
                    return session, result
            raise AssertionError("unreachable")  # pragma: no cover

        async with self.workers.turn(call, session_id):
            return await self.workers.quick(work)

    async def state_after(
        self, call: Call, session_id: str, act: Callable[[SessionManager], object]
    ) -> Answer:
        """Change a session as `change` does, and answer with its state."""
        session, _ = await self.change(call, session_id, act)
        state = gives.SessionStateResult.of(session, self.store)
        return Answer(state, state.line())

    async def create(self, _: Call, given: takes.SessionCreate) -> Answer:
        """Begin a session."""

        def work() -> SessionContext:
            return SessionManager(self.store, clock=self.clock).create(
                given.workflow_type,
                given.initial_phase,
                given.token_budget,
                goal=given.goal,
            )

        state = gives.SessionStateResult.of(await self.workers.quick(work), self.store)
        return Answer(state, state.line())

    async def list(self, _: Call, given: takes.SessionList) -> Answer:
        """List the sessions."""
        unreadable: list[UnreadableSession] = []

        def work() -> gives.SessionListResult:
            manager = SessionManager(self.store, clock=self.clock)
            state = SessionState(given.state) if given.state is not None else None
            found = manager.list(state=state, on_unreadable=unreadable.append)
            listed, problems = [], [(one.session_id, str(one.error)) for one in unreadable]
            for one in found[: given.limit]:
                # its goal stands behind the head, which is all that a listing reads
                loaded = attempt(self.store.load, one.session_id)
                if isinstance(loaded, Failure):
                    problems.append((one.session_id, str(loaded.error)))
                elif loaded.value is not None:  # else it was deleted meanwhile
                    listed.append(gives.ListedSession.of(one, loaded.value.goal))
            return gives.SessionListResult(
                sessions=listed,
                total=len(found),
                unreadable=[
                    gives.UnreadableResult(session_id=name, problem=gives.cut(problem, 500)[0])
                    for name, problem in problems[: given.limit]
                ],
            )

        listed = await self.workers.quick(work)
        lines = [_listed_line(one) for one in listed.sessions]
        more = listed.total - given.limit
        if more > 0:
            lines.append(f"({more} more; give a larger limit or a state)")
        lines += [f"{one.session_id}: can't be read: {one.problem}" for one in listed.unreadable]
        return Answer(listed, "\n".join(lines) or "There are no such sessions.")

    async def show(self, _: Call, given: takes.SessionShow) -> Answer:
        """Show a session."""
        session = await self.workers.quick(lambda: self._load(given.session_id))
        shown = gives.SessionShowResult(
            session=gives.SessionStateResult.of(session, self.store),
            artifacts=[
                gives.ArtifactResult.of(one)
                for one in _last(session.artifacts, given.artifacts_limit)
            ],
            artifacts_total=len(session.artifacts),
            history=[
                gives.HistoryResult.of(one) for one in _last(session.history, given.history_limit)
            ],
            history_total=len(session.history),
        )
        lines = [shown.session.line()]
        if shown.session.goal:
            lines.append(f"Goal: {shown.session.goal}")
        if shown.history:
            lines.append(f"History, the last {len(shown.history)} of {shown.history_total}:")
            lines += [_entry_line(one) for one in shown.history]
        if shown.artifacts:
            lines.append(f"Files made, the last {len(shown.artifacts)} of {shown.artifacts_total}:")
            lines += [f"- {one.path} ({one.artifact_type})" for one in shown.artifacts]
        return Answer(shown, "\n".join(lines))

    async def brief(self, _: Call, given: takes.SessionBrief) -> Answer:
        """Write a session's briefing."""

        def work() -> gives.BriefingResult:
            manager = self.lead(given.session_id)
            session = manager.current_session
            assert session is not None  # noqa: S101 (it was loaded)
            return gives.BriefingResult(
                session_id=session.session_id,
                state=session.state.value,
                briefing=manager.briefing(given.max_tokens),
            )

        told = await self.workers.quick(work)
        return Answer(told, told.briefing)

    async def advance(self, call: Call, given: takes.SessionAdvance) -> Answer:
        """Go on to another phase."""
        return await self.state_after(
            call, given.session_id, lambda manager: manager.advance_phase(given.phase)
        )

    async def retry(self, call: Call, given: takes.SessionAndReason) -> Answer:
        """Begin another attempt at the phase."""
        return await self.state_after(
            call, given.session_id, lambda manager: manager.retry_phase(given.reason)
        )

    async def pause(self, call: Call, given: takes.SessionAndReason) -> Answer:
        """Stop until resumed."""
        return await self.state_after(
            call, given.session_id, lambda manager: manager.pause(given.reason)
        )

    async def resume(self, call: Call, given: takes.SessionOnly) -> Answer:
        """Go on with a paused session."""
        return await self.state_after(call, given.session_id, lambda manager: manager.resume())

    async def complete(self, call: Call, given: takes.SessionOnly) -> Answer:
        """End well."""
        return await self.state_after(call, given.session_id, lambda manager: manager.complete())

    async def abort(self, call: Call, given: takes.SessionAndReason) -> Answer:
        """End badly."""
        return await self.state_after(
            call, given.session_id, lambda manager: manager.abort(given.reason)
        )

    def _load(self, session_id: str) -> SessionContext:
        session = self.lead(session_id).current_session
        assert session is not None  # noqa: S101 (it was loaded)
        return session

    def tools(self) -> tuple[Tool, ...]:
        """All of them."""
        return (
            Tool(
                name="session_create",
                title="Begin a session",
                description=(
                    "Begin a durable session for a piece of work that may outlive this context. "
                    "Returns its id; keep it, every other session tool takes it. If it fails, "
                    "there is no new session."
                ),
                arguments=takes.SessionCreate,
                result=gives.SessionStateResult,
                run=self.create,
            ),
            Tool(
                name="session_list",
                title="List sessions",
                description=(
                    "List the sessions with their goals, the last changed first, to find one to "
                    "go on with. Sessions whose files can't be read are listed apart, and left as "
                    "they are."
                ),
                arguments=takes.SessionList,
                result=gives.SessionListResult,
                run=self.list,
                read_only=True,
            ),
            Tool(
                name="session_show",
                title="Show a session",
                description=(
                    "Show a session's state and budget, the last entries of its history, and the "
                    "last files that the work made."
                ),
                arguments=takes.SessionShow,
                result=gives.SessionShowResult,
                run=self.show,
                read_only=True,
            ),
            Tool(
                name="session_brief",
                title="Brief on a session",
                description=(
                    "Return the text to read first when taking up a session after a context reset: "
                    "goal, phase, budget, open problems, what was done. Never longer than "
                    "max_tokens."
                ),
                arguments=takes.SessionBrief,
                result=gives.BriefingResult,
                run=self.brief,
                read_only=True,
            ),
            Tool(
                name="session_advance",
                title="Advance to a phase",
                description=(
                    "Go on to another phase, at its first attempt. The session must be active; "
                    "else this fails and changes nothing. It waits for run_code calls of the "
                    "session that came before it."
                ),
                arguments=takes.SessionAdvance,
                result=gives.SessionStateResult,
                run=self.advance,
            ),
            Tool(
                name="session_retry",
                title="Retry the phase",
                description=(
                    "Begin another attempt at the current phase; say in the reason what to do "
                    "differently. The session must be active; else this fails and changes nothing."
                ),
                arguments=takes.SessionAndReason,
                result=gives.SessionStateResult,
                run=self.retry,
            ),
            Tool(
                name="session_pause",
                title="Pause a session",
                description=(
                    "Stop an active session until session_resume; say why in the reason. While it "
                    "is paused, run_code, session_advance and session_retry are refused."
                ),
                arguments=takes.SessionAndReason,
                result=gives.SessionStateResult,
                run=self.pause,
            ),
            Tool(
                name="session_resume",
                title="Resume a session",
                description="Go on with a paused session. If it is not paused, this fails.",
                arguments=takes.SessionOnly,
                result=gives.SessionStateResult,
                run=self.resume,
            ),
            Tool(
                name="session_complete",
                title="Complete a session",
                description=(
                    "End an active session well, for good: it can't be taken up again. A paused "
                    "one must be resumed first. Its record and files are kept."
                ),
                arguments=takes.SessionOnly,
                result=gives.SessionStateResult,
                run=self.complete,
                destructive=True,
            ),
            Tool(
                name="session_abort",
                title="Abort a session",
                description=(
                    "End an active or paused session badly, for good; say why in the reason. Its "
                    "record and files are kept."
                ),
                arguments=takes.SessionAndReason,
                result=gives.SessionStateResult,
                run=self.abort,
                destructive=True,
            ),
        )


def _last(items: list[_Result], limit: int) -> list[_Result]:
    return items[-limit:] if limit else []


def _listed_line(one: gives.ListedSession) -> str:
    phase = f"phase {one.current_phase}" if one.current_phase else "no phase"
    goal = f": {' '.join(one.goal.split())}" if one.goal else ""
    return (
        f"{one.session_id}{goal} ({one.state}; {phase}, attempt {one.attempt_number}; "
        f"{one.tokens_remaining:,} tokens left; changed {one.updated_at})"
    )


def _entry_line(entry: gives.HistoryResult) -> str:
    phase = f" [{entry.phase}]" if entry.phase else ""
    details = _on_one_line(entry.details or "")
    return f"- {entry.timestamp}{phase} {entry.action}{f': {details}' if details else ''}"


def _on_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_DETAILS else f"{flat[: _SHOWN_DETAILS - 1]}…"
