"""The harness as tools: begin, show, brief and lead durable sessions.

The module is long because each tool declares its arguments.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Final, Literal, TypeVar

from attrs import frozen
from mcp_types import CallToolResult
from pydantic import Field

from ....base.clock import utc_now
from ....base.result import Failure, attempt
from ....base.settings.choices import DEFAULT_PARTS
from ....base.settings.privacy import read_privacy
from ....harness import (
    Clock,
    PhaseExecutor,
    SessionContext,
    SessionManager,
    SessionNotAdopted,
    SessionNotFound,
    SessionObserver,
)
from ....harness.domain.entry_data import thawed
from ....harness.lazy import Lazy
from ....harness.services.session_recording import despite_conflicts
from ....harness.session_domain import (
    DEFAULT_TOKEN_BUDGET,
    MAX_COUNT,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
)
from ....harness.session_ports import LocalSessions, require_own
from ....harness.snapshot_port import WorkspaceSnapshots
from ....harness.views.briefing import DEFAULT_MAX_TOKENS
from ....harness.views.session_filter import AskedFilters
from .. import results
from ..arguments import MAX_LISTED, Phase, Reason, SessionId
from ..calls import Call, Workers
from ..errors import InvalidArguments
from ..project_folder import ProjectFolder
from ..tool import Effect, answer, tool

_Result = TypeVar("_Result")
_State = Literal["active", "paused", "completed", "aborted"]
_Order = Literal[
    "last_changed",
    "first_changed",
    "last_created",
    "first_created",
    "least_left",
    "most_left",
    "most_spent",
    "least_spent",
    "id",
]

_REPEATS: Final = 12
"""How often a change is repeated after another process changed the session.

Agents call tools in parallel, and several servers may lead one session: of 1,290 changes, made 10
to 16 at once, 3 were overtaken four times in a row."""
_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.1
"""The longest pause before a change is repeated, at first and at the most, in seconds."""


def lead(
    store: LocalSessions,
    session_id: str,
    *,
    clock: Clock,
    executor: PhaseExecutor | None = None,
    snapshots: Lazy[WorkspaceSnapshots] | None = None,
    observers: Sequence[SessionObserver] = (),
    briefing_shows: Collection[str] = DEFAULT_PARTS,
) -> tuple[SessionManager, SessionContext]:
    """Return a manager that leads a session, and the session.

    Raises:
        SessionNotFound: There is none of this id.
        SessionNotAdopted: It is not this person's: nothing of it goes to an agent.
    """
    manager = SessionManager(
        store,
        executor=executor,
        snapshots=snapshots,
        clock=clock,
        observers=observers,
        briefing_shows=briefing_shows,
    )
    session = manager.load(session_id)
    if session is None:
        raise SessionNotFound(session_id, path=store.where)
    require_own(store, session_id)
    return manager, session


@frozen(kw_only=True)
class SessionTools:
    """Tools over the sessions of one store.

    Each call leads its session with a manager of its own, so that calls and clients never share
    one. Calls that change one session run one after the other; what a call says explicitly holds
    for the session as it is then, so it is repeated when another process was faster.

    Attributes:
        store: Where the sessions are.
        workers: Where the work runs.
        snapshots: Keeps workspaces at checkpoints; none is kept without it.
        project: The project whose repositories sessions may begin from; none without it.
        clock: The time.
        sleep: Pauses a worker thread for so many seconds.
        chance: Gives numbers from 0 to 1, so that those who met once don't meet again.
        observers: Who observes what happens to the sessions.
        briefing_shows: As of `SessionManager`.
    """

    store: LocalSessions
    workers: Workers
    snapshots: Lazy[WorkspaceSnapshots] | None = None
    project: ProjectFolder | None = None
    clock: Clock = utc_now
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    observers: Sequence[SessionObserver] = ()
    briefing_shows: Collection[str] = DEFAULT_PARTS

    def lead(self, session_id: str) -> tuple[SessionManager, SessionContext]:
        """Return a manager that leads a session, and the session; see `lead`."""
        return lead(
            self.store,
            session_id,
            clock=self.clock,
            snapshots=self.snapshots,
            observers=self.observers,
            briefing_shows=self.briefing_shows,
        )

    async def change(
        self, call: Call, session_id: str, act: Callable[[SessionManager], _Result]
    ) -> tuple[SessionContext, _Result]:
        """Change a session when it is this call's turn; again if another process was faster.

        Args:
            call: The call, which reports that it waits.
            session_id: The session; no other one is touched.
            act: Makes the change with a manager that leads the session.

        Raises:
            SessionNotFound: There is none of this id.
            SessionConflict: Other processes were faster each time; nothing was written.
        """

        def once() -> tuple[SessionContext, _Result]:
            manager, session = self.lead(session_id)
            return session, act(manager)

        def work() -> tuple[SessionContext, _Result]:
            return despite_conflicts(once, again=self._pauses().__next__, attempts=_REPEATS + 1)

        async with self.workers.turn(call, session_id):
            return await self.workers.quick(work)

    def _pauses(self) -> Iterator[bool]:
        """Pause at each step, each time longer at the most."""
        longest_s = _FIRST_PAUSE_S
        while True:
            self.sleep(longest_s * self.chance())
            longest_s = min(2 * longest_s, _LONGEST_PAUSE_S)
            yield True

    async def state_after(
        self, call: Call, session_id: str, act: Callable[[SessionManager], object]
    ) -> CallToolResult:
        """Change a session as `change` does, and answer with its state."""
        session, _ = await self.change(call, session_id, act)
        return self.state(session)

    def state(self, session: SessionContext) -> CallToolResult:
        """Answer with where a session is."""
        state = results.SessionStateResult.of(session, self.store)
        return answer(state, state.line())

    @tool("Begin a session")
    async def session_create(
        self,
        goal: Annotated[
            str,
            Field(
                min_length=1,
                max_length=MAX_GOAL_CHARS,
                description="What the work is for, in a few sentences; every briefing begins with "
                "it.",
            ),
        ],
        workflow_type: Annotated[
            str | None,
            Field(
                max_length=MAX_NAME_CHARS,
                description="A short name of the kind of work, such as tdflow.",
            ),
        ] = None,
        initial_phase: Annotated[
            str | None,
            Field(max_length=MAX_NAME_CHARS, description="The phase the work begins in."),
        ] = None,
        title: Annotated[str, Field(description="One line.")] = "",
        tags: Annotated[list[str], Field(description="Words without blanks.")] = [],  # noqa: B006 # only read, and the schema says it
        token_budget: Annotated[
            int, Field(ge=1, le=MAX_COUNT, description="Tokens that the work may cost.")
        ] = DEFAULT_TOKEN_BUDGET,
        repo: Annotated[
            str | None,
            Field(
                min_length=1,
                max_length=MAX_PATH_CHARS,
                description="A folder of the project in a git checkout ('.': the project): the "
                "workspace begins as a copy of a commit of it. 'none': empty. Left out: as the "
                "project's configuration says.",
            ),
        ] = None,
        base: Annotated[
            str | None,
            Field(max_length=MAX_NAME_CHARS, description="That commit; HEAD if left out."),
        ] = None,
        with_uncommitted: Annotated[
            bool, Field(description="Copy the checkout's uncommitted work, too.")
        ] = False,
    ) -> results.StateAnswer:
        """Begin a durable session for a piece of work that may outlive this context.

        Returns its id; keep it, every other session tool takes it. If it fails, there is no
        new session, unless the error says that its workspace could not be made.
        """

        def work() -> SessionContext:
            attachments = self._base(repo, base, with_uncommitted=with_uncommitted)
            manager = SessionManager(
                self.store,
                snapshots=self.snapshots,
                clock=self.clock,
                observers=self.observers,
            )
            return manager.create(
                workflow_type,
                initial_phase,
                token_budget,
                goal=goal,
                title=title or None,
                tags=tags,
                attachments=attachments,
            )

        return self.state(await self.workers.quick(work))

    def _base(
        self, repo: str | None, base: str | None, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Return the files by which a new session knows its repository; none without one."""
        if self.project is None or self.snapshots is None:
            if repo is not None or base is not None or with_uncommitted:
                raise InvalidArguments("session_create", ["repo: this server has no project"])
            return {}
        found = self.project.base_of(repo, base, with_uncommitted=with_uncommitted)
        if not found.use:
            return {}
        return self.snapshots().attachments(
            found.path, found.revision, with_uncommitted=found.with_uncommitted
        )

    @tool("List sessions", Effect.READS)
    async def session_list(
        self,
        state: Annotated[
            _State | list[_State] | None,
            Field(description="Only sessions in this state, or in one of these."),
        ] = None,
        limit: Annotated[
            int, Field(ge=1, le=MAX_LISTED, description="The most sessions that are listed.")
        ] = 20,
        goal: Annotated[
            str | None,
            Field(min_length=3, description="Only sessions with this in their goal."),
        ] = None,
        workflow_type: Annotated[
            str | None, Field(description="Only sessions of this workflow.")
        ] = None,
        current_phase: Annotated[
            str | None, Field(description="Only sessions in this phase.")
        ] = None,
        tags: Annotated[
            list[str] | None, Field(description="Only sessions with all of these tags.")
        ] = None,
        budget_left: Annotated[
            str | None,
            Field(description="Only sessions with so much budget left: ..20%, 5000.., 10%..50%."),
        ] = None,
        order: Annotated[
            _Order, Field(description="What comes first; the same for each page.")
        ] = "last_changed",
        after: Annotated[
            str | None,
            Field(description="Where a former list ended: its `next`. All else as for that list."),
        ] = None,
    ) -> results.ListAnswer:
        """List the sessions with their goals, the last changed first unless ordered otherwise.

        Sessions whose files can't be read, or that came with a clone and no person adopted, are
        listed apart, and left as they are.
        """
        filters: AskedFilters = {
            "state": state,
            "workflow_type": workflow_type,
            "current_phase": current_phase,
            "tags": tags,
            "goal": goal,
            "budget_left": budget_left,
        }
        listed = await self.workers.quick(lambda: self._listed(limit, order, after, filters))
        lines = [one.line() for one in listed.sessions]
        if listed.next is not None:
            more = "more" if listed.total is None else f"{listed.total - limit} more"
            lines.append(f"({more}; give a larger limit, a state or after={listed.next})")
        lines += [f"{one.session_id}: can't be read: {one.problem}" for one in listed.unreadable]
        return answer(listed, "\n".join(lines) or "There are no such sessions.")

    def _listed(
        self, limit: int, order: _Order, after: str | None, filters: AskedFilters
    ) -> results.SessionListResult:
        manager = SessionManager(self.store, clock=self.clock)
        page = manager.page(limit, order=order, after=after, **filters)
        listed, problems = [], [(one.session_id, str(one.error)) for one in page.unreadable]
        for one in page.sessions:
            if not self.store.is_own(one.session_id):  # nothing that it says goes to an agent
                refused = SessionNotAdopted(one.session_id, where=self.store.where)
                problems.append((one.session_id, str(refused)))
                continue
            # its goal stands behind the head, which is all that a listing reads
            loaded = attempt(self.store.load, one.session_id)
            if isinstance(loaded, Failure):
                problems.append((one.session_id, str(loaded.error)))
            elif loaded.value is not None:  # else it was deleted meanwhile
                listed.append(results.ListedSession.of(one, loaded.value.goal))
        return results.SessionListResult(
            sessions=listed,
            total=None if page.more is None else len(page.sessions) + page.more,
            next=None if page.after is None else str(page.after),
            unreadable=[
                results.UnreadableResult(session_id=name, problem=results.cut(problem, 500)[0])
                for name, problem in problems[:limit]
            ],
        )

    @tool("Show a session", Effect.READS)
    async def session_show(
        self,
        session_id: SessionId,
        history_limit: Annotated[
            int,
            Field(
                ge=0, le=MAX_LISTED, description="How many entries of the history, the last ones."
            ),
        ] = 20,
        artifacts_limit: Annotated[
            int, Field(ge=0, le=MAX_LISTED, description="How many files made, the last ones.")
        ] = 50,
    ) -> results.ShowAnswer:
        """Show a session's state and budget, and the last of its history and files."""
        _, session = await self.workers.quick(lambda: self.lead(session_id))
        shown = results.SessionShowResult(
            session=results.SessionStateResult.of(session, self.store),
            title=session.title,
            tags=list(session.tags),
            metadata=thawed(session.metadata),
            parent_id=session.parent_id,
            artifacts=[
                results.ArtifactResult.model_validate(one)
                for one in _last(session.artifacts, artifacts_limit)
            ],
            artifacts_total=len(session.artifacts),
            history=[
                results.HistoryResult.model_validate(one)
                for one in _last(session.history, history_limit)
            ],
            history_total=len(session.history),
        )
        lines = [shown.session.line()]
        if shown.session.goal:
            lines.append(f"Goal: {shown.session.goal}")
        if shown.title:
            lines.append(f"Title: {shown.title}")
        if shown.tags:
            lines.append(f"Tags: {', '.join(shown.tags)}")
        if shown.history:
            lines.append(f"History, the last {len(shown.history)} of {shown.history_total}:")
            lines += [one.line() for one in shown.history]
        if shown.artifacts:
            lines.append(f"Files made, the last {len(shown.artifacts)} of {shown.artifacts_total}:")
            lines += [f"- {one.path} ({one.artifact_type})" for one in shown.artifacts]
        return answer(shown, "\n".join(lines))

    @tool("Brief on a session", Effect.READS)
    async def session_brief(
        self,
        session_id: SessionId,
        max_tokens: Annotated[
            int,
            Field(ge=1, le=100_000, description="The most tokens that the briefing may count."),
        ] = DEFAULT_MAX_TOKENS,
    ) -> results.BriefingAnswer:
        """Return the text to read first when taking up a session after a context reset.

        Goal, phase, budget, open problems, what was done; never longer than max_tokens.
        """

        def work() -> results.BriefingResult:
            manager, session = self.lead(session_id)
            return results.BriefingResult(
                session_id=session.session_id,
                state=session.state.value,
                briefing=manager.briefing(max_tokens, may_show=read_privacy(None)),
            )

        written = await self.workers.quick(work)
        return answer(written, written.briefing)

    @tool("Advance to a phase")
    async def session_advance(
        self, call: Call, session_id: SessionId, phase: Phase
    ) -> results.StateAnswer:
        """Go on to another phase, at its first attempt.

        The session must be active; else this fails and changes nothing. It waits for
        run_code calls of the session that came before it.
        """
        return await self.state_after(call, session_id, lambda one: one.advance_phase(phase))

    @tool("Retry the phase")
    async def session_retry(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.StateAnswer:
        """Begin another attempt at the current phase; say in the reason what to do differently.

        The session must be active; else this fails and changes nothing.
        """
        return await self.state_after(call, session_id, lambda one: one.retry_phase(reason))

    @tool("Pause a session")
    async def session_pause(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.StateAnswer:
        """Stop an active session until session_resume; say why in the reason.

        While it is paused, run_code, session_advance and session_retry are refused.
        """
        return await self.state_after(call, session_id, lambda one: one.pause(reason))

    @tool("Resume a session")
    async def session_resume(self, call: Call, session_id: SessionId) -> results.StateAnswer:
        """Go on with a paused session. If it is not paused, this fails."""
        return await self.state_after(call, session_id, lambda one: one.resume())

    @tool("Complete a session", Effect.DESTROYS)
    async def session_complete(self, call: Call, session_id: SessionId) -> results.StateAnswer:
        """End an active session well, for good: it can't be taken up again.

        A paused one must be resumed first. Its record and files are kept.
        """
        return await self.state_after(call, session_id, lambda one: one.complete())

    @tool("Abort a session", Effect.DESTROYS)
    async def session_abort(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.StateAnswer:
        """End an active or paused session badly, for good; say why in the reason.

        Its record and files are kept.
        """
        return await self.state_after(call, session_id, lambda one: one.abort(reason))


def _last(items: list[_Result], limit: int) -> list[_Result]:
    return items[-limit:] if limit else []
