"""Tools on the workspaces of sessions: look at what changed, go back, begin anew, bring it home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

from attrs import frozen
from pydantic import Field

from ....base.errors import counted
from ....harness import SessionContext, SessionManager
from ....harness.session_domain import MAX_COUNT, MAX_NAME_CHARS, MAX_PATH_CHARS
from ..arguments import MAX_LISTED, SessionId
from ..calls import Call
from ..errors import InvalidArguments
from ..project_folder import ProjectFolder
from ..results import SessionStateResult, cut, sound
from ..tool import Effect, answer, tool
from . import workspace_results as results
from .session_tools import SessionTools

if TYPE_CHECKING:
    from ....repository.apply.applied import Applied
    from ....repository.apply.apply_plan import ApplyOptions

_MAX_PATCH_CHARS: Final = 200_000
_PATCH_CHARS: Final = 16_000
_MAX_PATHS: Final = 200
_MAX_MESSAGE_CHARS: Final = 20_000

Checkpoint = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="A checkpoint: its number, the beginning of its snapshot's id, a phase or an "
        "attempt (green-2), whose last one is meant.",
    ),
]
MaybeCheckpoint = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="A checkpoint; the workspace as it is now if left out.",
    ),
]
Paths = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARS)]],
    Field(max_length=_MAX_PATHS, description="Only these files and folders; all if empty."),
]


class Results(Protocol):
    """What brings the results of sessions home; `wiring.bootstrap.session_results` is one."""

    def began_from(self, session_id: str) -> Path | None:
        """Return the checkout that a session began from, or None."""
        ...

    def apply(
        self,
        session: SessionContext,
        options: ApplyOptions,
        *,
        at: str | int | None = None,
        checkout: Path | None = None,
        dry_run: bool = False,
    ) -> Applied:
        """Apply what a session changed to a checkout: as a whole, or not at all."""
        ...

    def export(self, session: SessionContext, folder: Path, *, at: str | int | None = None) -> str:
        """Write a session's files to a new folder; return the snapshot."""
        ...


@frozen(kw_only=True)
class WorkspaceTools:
    """Tools on the workspaces of one store's sessions.

    Attributes:
        sessions: Leads the sessions.
        home: Brings results to where a person works.
        project: The project that clients may write to, each only as the person allows.
    """

    sessions: SessionTools
    home: Results
    project: ProjectFolder

    @tool("List checkpoints", Effect.READS)
    async def session_checkpoints(
        self,
        session_id: SessionId,
        limit: Annotated[
            int, Field(ge=1, le=MAX_LISTED, description="How many, the last ones.")
        ] = 50,
    ) -> results.CheckpointsAnswer:
        """List a session's checkpoints: where its workspace is kept, to compare and to go back."""

        def work() -> results.CheckpointsResult:
            manager, session = self.sessions.lead(session_id)
            found = manager.checkpoints()
            return results.CheckpointsResult(
                session_id=session.session_id,
                checkpoints=[results.CheckpointResult.of(one) for one in found[-limit:]],
                total=len(found),
            )

        listed = await self.sessions.workers.quick(work)
        lines = [one.line() for one in listed.checkpoints]
        return answer(listed, "\n".join(lines) or "The session has no checkpoint yet.")

    @tool("Show what changed", Effect.READS)
    async def session_diff(
        self,
        session_id: SessionId,
        before: Annotated[
            str | None,
            Field(
                min_length=1,
                max_length=MAX_NAME_CHARS,
                description="A checkpoint, as of session_rewind; what the work began from if left "
                "out.",
            ),
        ] = None,
        after: MaybeCheckpoint = None,
        paths: Paths = [],  # noqa: B006 (part of the schema, and never changed)
        patch_chars: Annotated[
            int,
            Field(
                ge=0,
                le=_MAX_PATCH_CHARS,
                description="The most characters of changed lines that come back; 0: files only.",
            ),
        ] = _PATCH_CHARS,
    ) -> results.DiffAnswer:
        """Show what changed in a session's workspace between two checkpoints, or until now."""

        def work() -> results.DiffResult:
            manager, session = self.sessions.lead(session_id)
            found = manager.diff(before, after, patch=patch_chars > 0, paths=paths)
            patch = found.patch.decode("utf-8", "backslashreplace")
            shown, was_cut = cut(patch, patch_chars) if patch_chars else ("", False)
            return results.DiffResult(
                session_id=session.session_id,
                files=[
                    results.ChangedFileResult.model_validate(one)
                    for one in found.files[:_MAX_PATHS]
                ],
                files_total=len(found.files),
                insertions=found.insertions,
                deletions=found.deletions,
                patch=shown,
                truncated=was_cut or len(found.files) > _MAX_PATHS,
            )

        changed = await self.sessions.workers.quick(work)
        lines = [one.line() for one in changed.files]
        if changed.files_total > len(changed.files):
            lines.append(f"({changed.files_total - len(changed.files)} more files)")
        if changed.patch:
            lines.append(changed.patch)
        return answer(changed, "\n".join(lines) or "Nothing changed.")

    @tool("Go back to a checkpoint", Effect.DESTROYS)
    async def session_rewind(
        self, call: Call, session_id: SessionId, to: Checkpoint
    ) -> results.RewindAnswer:
        """Take a session and all files of its workspace back to a checkpoint.

        The history only grows and spent tokens stay spent. The workspace as it is now is kept as
        a checkpoint first, so that the session can go forward to it again.
        """
        session, target = await self.sessions.change(call, session_id, lambda one: one.rewind(to))
        done = results.RewindResult(
            session=self._state(session), checkpoint=results.CheckpointResult.of(target)
        )
        return answer(done, f"{done.session.line()} It is back at {done.checkpoint.line()}.")

    @tool("Fork a session")
    async def session_fork(
        self,
        call: Call,
        session_id: SessionId,
        at: Checkpoint,
        token_budget: Annotated[
            int | None,
            Field(
                ge=1,
                le=MAX_COUNT,
                description="Tokens that the new one may cost; the other's, with what it has "
                "spent, if left out.",
            ),
        ] = None,
    ) -> results.ForkAnswer:
        """Begin a new session where another one stood at a checkpoint, with its files.

        The other one stays as it is, and may have ended.
        """

        def act(manager: SessionManager) -> SessionContext:
            return manager.fork(at, token_budget=token_budget)

        parent, forked = await self.sessions.change(call, session_id, act)
        made = results.ForkResult(session=self._state(forked), parent_id=parent.session_id)
        return answer(made, f"{made.session.line()} It begins at {at} of {made.parent_id}.")

    @tool("Apply a result to the checkout", Effect.DESTROYS)
    async def session_apply(
        self,
        call: Call,
        session_id: SessionId,
        at: MaybeCheckpoint = None,
        files: Annotated[
            list[Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARS)]],
            Field(
                max_length=_MAX_PATHS,
                description="Globs of the paths that are applied, as src/**; all if empty.",
            ),
        ] = [],  # noqa: B006 (part of the schema, and never changed)
        commit: Annotated[bool, Field(description="Commit it, and nothing else.")] = False,
        message: Annotated[
            str | None,
            Field(min_length=1, max_length=_MAX_MESSAGE_CHARS, description="The commit's message."),
        ] = None,
        branch: Annotated[
            str | None,
            Field(
                min_length=1,
                max_length=MAX_NAME_CHARS,
                description="Commit it on this new branch, and leave the checkout as it is.",
            ),
        ] = None,
        dry_run: Annotated[bool, Field(description="Only say what would change.")] = False,
    ) -> results.ApplyAnswer:
        """Bring what a session changed into the person's checkout: as a whole, or not at all.

        That is the checkout that the session began from, else the project's. It writes to the
        person's files: do it when they asked for it, and show them a dry run first. Work that is
        not committed is never overwritten: then nothing is done, and the error names each path.
        """
        from ....repository.apply.apply_plan import ApplyOptions

        faults = []
        if branch is not None and commit:
            faults.append("commit: a branch gets its commit by itself")
        if message is not None and not (commit or branch is not None):
            faults.append("message: only a commit has one")
        if faults:
            raise InvalidArguments("session_apply", faults)
        options = ApplyOptions(files=tuple(files), commit=commit, message=message, branch=branch)

        def work() -> Applied:
            _, session = self.sessions.lead(session_id)
            began = self.home.began_from(session.session_id)
            checkout = began if began is not None else self.project.path
            return self.home.apply(session, options, at=at, checkout=checkout, dry_run=dry_run)

        async with self.sessions.workers.turn(call, session_id):
            applied = await self.sessions.workers.quick(work)
        return answer(_applied(session_id, applied), _told(applied))

    @tool("Export a session's files")
    async def session_export(
        self,
        call: Call,
        session_id: SessionId,
        folder: Annotated[
            str,
            Field(
                min_length=1,
                max_length=MAX_PATH_CHARS,
                description="The new folder, relative to the project; nothing may be there.",
            ),
        ],
        at: MaybeCheckpoint = None,
    ) -> results.ExportAnswer:
        """Write a session's files to a new folder of the project, which appears whole."""
        target = self.project.new_folder(folder)

        def work() -> str:
            _, session = self.sessions.lead(session_id)
            return self.home.export(session, target, at=at)

        async with self.sessions.workers.turn(call, session_id):
            snapshot = await self.sessions.workers.quick(work)
        made = results.ExportResult(session_id=session_id, snapshot=snapshot, folder=str(target))
        return answer(made, f"The files of {session_id} are in {target}.")

    def _state(self, session: SessionContext) -> SessionStateResult:
        return SessionStateResult.of(session, self.sessions.store)


def _applied(session_id: str, applied: Applied) -> results.ApplyResult:
    return results.ApplyResult(
        session_id=session_id,
        checkout=str(applied.checkout),
        paths=[results.AppliedPathResult.model_validate(one) for one in applied.paths[:_MAX_PATHS]],
        paths_total=len(applied.paths),
        ignored=len(applied.ignored),
        left_out=len(applied.left_out),
        commit=applied.commit,
        branch=applied.branch,
        dry_run=applied.dry_run,
        nothing_to_do=applied.nothing_to_do,
    )


def _told(applied: Applied) -> str:
    paths = [f"- {one.change}: {one.path}" for one in applied.paths[:_MAX_PATHS]]
    where = applied.branch or applied.checkout
    count = counted(len(applied.paths), "path")
    if applied.nothing_to_do:
        head = f"Applied already: {applied.checkout} has all of it."
    elif applied.dry_run:
        head = f"Nothing was done; {count} would change in {where}."
    elif applied.commit is not None:
        head = f"Committed {count} in {where} ({applied.commit[:12]})."
    else:
        head = f"Applied {count} to {where}, staged and not committed."
    return sound("\n".join([head, *paths]))
