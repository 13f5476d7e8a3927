"""The harness as tools: begin, show, brief on and lead durable sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import frozen
from pydantic import Field

from ....base.result import Failure, attempt
from ....harness import SessionContext
from ....harness.errors import SessionNotAdopted
from ....harness.session_domain import (
    DEFAULT_TOKEN_BUDGET,
    MAX_COUNT,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
)
from ....harness.views.briefing import DEFAULT_MAX_TOKENS
from ....harness.views.session_filter import AskedFilters
from .. import results
from ..arguments import MAX_LISTED, Phase, Reason, SessionId
from ..calls import Call
from ..errors import InvalidArguments
from ..tool import Effect, tool
from .session_access import ProjectFolder, SessionAccess

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
_Name = Annotated[str | None, Field(max_length=MAX_NAME_CHARS)]


@frozen
class SessionTools:
    """Tools over the sessions of one store.

    Attributes:
        sessions: The calls' access to sessions.
        project: The project whose repositories sessions may begin from; none without it.
    """

    sessions: SessionAccess
    project: ProjectFolder | None = None

    @tool("Begin a session")
    async def session_create(
        self,
        goal: Annotated[str, Field(min_length=1, max_length=MAX_GOAL_CHARS)],
        workflow_type: _Name = None,
        initial_phase: _Name = None,
        title: str = "",
        tags: list[str] = [],  # noqa: B006 # only read, and the schema says it
        token_budget: Annotated[int, Field(ge=1, le=MAX_COUNT)] = DEFAULT_TOKEN_BUDGET,
        repo: Annotated[str | None, Field(min_length=1, max_length=MAX_PATH_CHARS)] = None,
        base: _Name = None,
        with_uncommitted: bool = False,
    ) -> results.SessionStateResult:
        """Begin a durable session for a piece of work that may outlive this context.

        Returns its id; keep it, every other session tool takes it. If it fails, there is no
        new session, unless the error says that its workspace could not be made.

        Args:
            goal: What the work is for, in a few sentences; every briefing begins with it.
            workflow_type: A short name of the kind of work, such as tdflow.
            initial_phase: The phase the work begins in.
            title: One line.
            tags: Words without blanks.
            token_budget: Tokens that the work may cost.
            repo: A folder of the project in a git checkout ('.': the project): the workspace
                begins as a copy of a commit of it. 'none': empty. Left out: as the project's
                configuration says.
            base: That commit; HEAD if left out.
            with_uncommitted: Copy the checkout's uncommitted work, too.
        """

        def work() -> SessionContext:
            return self.sessions.manager().create(
                workflow_type,
                initial_phase,
                token_budget,
                goal=goal,
                title=title or None,
                tags=tags,
                attachments=self._base(repo, base, with_uncommitted=with_uncommitted),
            )

        return self.sessions.state(await self.sessions.workers.quick(work))

    def _base(
        self, repo: str | None, base: str | None, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Return the files that record a new session's repository; none without a repository."""
        snapshots = self.sessions.snapshots
        if self.project is None or snapshots is None:
            if repo is not None or base is not None or with_uncommitted:
                raise InvalidArguments("session_create", ["repo: this server has no project"])
            return {}
        found = self.project.base_of(repo, base, with_uncommitted=with_uncommitted)
        if not found.use:
            return {}
        return snapshots().attachments(
            found.path, found.revision, with_uncommitted=found.with_uncommitted
        )

    @tool("List sessions", Effect.READS)
    async def session_list(
        self,
        state: results.State | list[results.State] | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 20,
        goal: Annotated[str | None, Field(min_length=3)] = None,
        workflow_type: str | None = None,
        current_phase: str | None = None,
        tags: list[str] | None = None,
        budget_left: str | None = None,
        order: _Order = "last_changed",
        after: str | None = None,
    ) -> results.SessionListResult:
        """List the sessions with their goals, the last changed first unless ordered otherwise.

        Sessions whose files can't be read, or that came with a clone and no person adopted, are
        listed apart, and left as they are.

        Args:
            state: Only sessions in this state, or in one of these.
            limit: The most sessions that are listed.
            goal: Only sessions with this in their goal.
            workflow_type: Only sessions of this workflow.
            current_phase: Only sessions in this phase.
            tags: Only sessions with all of these tags.
            budget_left: Only sessions with so much budget left: ..20%, 5000.., 10%..50%.
            order: What comes first; the same for each page.
            after: Where a former list ended: its `next`. All else as for that list.
        """
        filters: AskedFilters = {
            "state": state,
            "workflow_type": workflow_type,
            "current_phase": current_phase,
            "tags": tags,
            "goal": goal,
            "budget_left": budget_left,
        }
        return await self.sessions.workers.quick(lambda: self._page(limit, order, after, filters))

    def _page(
        self, limit: int, order: _Order, after: str | None, filters: AskedFilters
    ) -> results.SessionListResult:
        store = self.sessions.store
        page = self.sessions.manager().page(limit, order=order, after=after, **filters)
        listed, problems = [], [(one.session_id, str(one.error)) for one in page.unreadable]
        for one in page.sessions:
            if not store.is_own(one.session_id):  # nothing in it goes to an agent
                refused = SessionNotAdopted(one.session_id, where=store.where)
                problems.append((one.session_id, str(refused)))
                continue
            # a listing reads only the head, and the goal comes after it
            loaded = attempt(store.load, one.session_id)
            if isinstance(loaded, Failure):
                problems.append((one.session_id, str(loaded.error)))
            elif loaded.value is not None:  # else it was deleted in the meantime
                listed.append(results.ListedSession.model_validate(loaded.value))
        return results.SessionListResult.of(page, listed, problems[:limit])

    @tool("Show a session", Effect.READS)
    async def session_show(
        self,
        session_id: SessionId,
        history_limit: Annotated[int, Field(ge=0, le=MAX_LISTED)] = 20,
        artifacts_limit: Annotated[int, Field(ge=0, le=MAX_LISTED)] = 50,
    ) -> results.SessionShowResult:
        """Show a session's state and budget, and the last of its history, files and steps.

        Args:
            history_limit: How many entries of the history, the last ones.
            artifacts_limit: How many files made, the last ones.
        """

        def work() -> results.SessionShowResult:
            from ....harness.steps.step_views import program_view

            _, session = self.sessions.lead(session_id)
            return results.SessionShowResult.of(
                session,
                self.sessions.state(session),
                program_view(self.sessions.store, session),
                history=history_limit,
                artifacts=artifacts_limit,
            )

        return await self.sessions.workers.quick(work)

    @tool("Brief on a session", Effect.READS)
    async def session_brief(
        self,
        session_id: SessionId,
        max_tokens: Annotated[int, Field(ge=1, le=100_000)] = DEFAULT_MAX_TOKENS,
    ) -> results.BriefingResult:
        """Return the text to read first when taking up a session after a context reset.

        Goal, phase, budget, open problems, what was done; never longer than max_tokens.

        Args:
            max_tokens: The most tokens that the briefing may count.
        """

        def work() -> results.BriefingResult:
            session, text = self.sessions.briefing(session_id, max_tokens)
            return results.BriefingResult(
                session_id=session.session_id, state=session.state.value, briefing=text
            )

        return await self.sessions.workers.quick(work)

    @tool("Advance to a phase")
    async def session_advance(
        self, call: Call, session_id: SessionId, phase: Phase
    ) -> results.SessionStateResult:
        """Go on to another phase, at its first attempt.

        The session must be active; else this fails and changes nothing. It waits for
        run_code calls of the session that came before it.
        """
        return await self.sessions.state_after(
            call, session_id, lambda one: one.advance_phase(phase)
        )

    @tool("Retry the phase")
    async def session_retry(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.SessionStateResult:
        """Begin another attempt at the current phase; say in the reason what to do differently.

        The session must be active; else this fails and changes nothing.
        """
        return await self.sessions.state_after(
            call, session_id, lambda one: one.retry_phase(reason)
        )

    @tool("Pause a session")
    async def session_pause(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.SessionStateResult:
        """Stop an active session until session_resume; say why in the reason.

        While it is paused, run_code, session_advance and session_retry are refused.
        """
        return await self.sessions.state_after(call, session_id, lambda one: one.pause(reason))

    @tool("Resume a session")
    async def session_resume(self, call: Call, session_id: SessionId) -> results.SessionStateResult:
        """Go on with a paused session. If it is not paused, this fails."""
        return await self.sessions.state_after(call, session_id, lambda one: one.resume())

    @tool("Complete a session", Effect.DESTROYS)
    async def session_complete(
        self, call: Call, session_id: SessionId
    ) -> results.SessionStateResult:
        """End an active session well, for good: it can't be taken up again.

        A paused one must be resumed first. Its record and files are kept.
        """
        return await self.sessions.state_after(call, session_id, lambda one: one.complete())

    @tool("Abort a session", Effect.DESTROYS)
    async def session_abort(
        self, call: Call, session_id: SessionId, reason: Reason = None
    ) -> results.SessionStateResult:
        """End an active or paused session badly, for good; say why in the reason.

        Its record and files are kept.
        """
        return await self.sessions.state_after(call, session_id, lambda one: one.abort(reason))
