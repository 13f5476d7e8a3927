"""Tools on sessions' workspaces: show changes, rewind, fork, apply and export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from attrs import frozen
from pydantic import Field

from ....harness.session_domain import MAX_COUNT, MAX_NAME_CHARS, MAX_PATH_CHARS
from ..arguments import MAX_LISTED, SessionId
from ..calls import Call
from ..errors import InvalidArguments
from ..results import cut
from ..tool import Effect, tool
from . import workspace_results as results
from .session_access import ProjectFolder, SessionAccess

if TYPE_CHECKING:
    from ....repository.apply.applied import Applied
    from ....wiring.bootstrap import SessionResults

_MAX_PATCH_CHARS: Final = 200_000
_PATCH_CHARS: Final = 16_000
_MAX_PATHS: Final = 200
_MAX_MESSAGE_CHARS: Final = 20_000

_Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
_Path = Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARS)]
Checkpoint = Annotated[
    _Name,
    Field(
        description="A checkpoint: its number, the beginning of its snapshot's id, a phase or an "
        "attempt (green-2), whose last one is meant."
    ),
]
MaybeCheckpoint = Annotated[
    _Name | None, Field(description="A checkpoint; the workspace as it is now if left out.")
]


@frozen
class WorkspaceTools:
    """Tools on the workspaces of one store's sessions.

    Attributes:
        sessions: The calls' access to sessions.
        home: Brings results to the person's checkout or project.
        project: The project that clients may write to, as far as the person allows.
    """

    sessions: SessionAccess
    home: SessionResults
    project: ProjectFolder

    @tool("List checkpoints", Effect.READS)
    async def session_checkpoints(
        self, session_id: SessionId, limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 50
    ) -> results.CheckpointsResult:
        """List a session's checkpoints: where its workspace is kept, to compare and to go back.

        Args:
            limit: How many, the last ones.
        """

        def work() -> results.CheckpointsResult:
            manager, session = self.sessions.lead(session_id)
            found = manager.checkpoints()
            return results.CheckpointsResult(
                session_id=session.session_id,
                checkpoints=[results.CheckpointResult.model_validate(e) for e in found[-limit:]],
                total=len(found),
            )

        return await self.sessions.workers.quick(work)

    @tool("Show what changed", Effect.READS)
    async def session_diff(
        self,
        session_id: SessionId,
        before: _Name | None = None,
        after: MaybeCheckpoint = None,
        paths: Annotated[list[_Path], Field(max_length=_MAX_PATHS)] = [],  # noqa: B006 (part of the schema, and never changed)
        patch_chars: Annotated[int, Field(ge=0, le=_MAX_PATCH_CHARS)] = _PATCH_CHARS,
    ) -> results.DiffResult:
        """Show what changed in a session's workspace between two checkpoints, or until now.

        Args:
            before: A checkpoint, as of session_rewind; what the work began from if left out.
            paths: Only these files and folders; all if empty.
            patch_chars: The most characters of changed lines that come back; 0: files only.
        """

        def work() -> results.DiffResult:
            manager, session = self.sessions.lead(session_id)
            found = manager.diff(before, after, patch=patch_chars > 0, paths=paths)
            patch = found.patch.decode("utf-8", "backslashreplace")
            shown, was_cut = cut(patch, patch_chars) if patch_chars else ("", False)
            files = found.files[:_MAX_PATHS]
            return results.DiffResult(
                session_id=session.session_id,
                files=[results.ChangedFileResult.model_validate(one) for one in files],
                files_total=len(found.files),
                insertions=found.insertions,
                deletions=found.deletions,
                patch=shown,
                truncated=was_cut or len(found.files) > _MAX_PATHS,
            )

        return await self.sessions.workers.quick(work)

    @tool("Go back to a checkpoint", Effect.DESTROYS)
    async def session_rewind(
        self, call: Call, session_id: SessionId, to: Checkpoint
    ) -> results.RewindResult:
        """Take a session and all files of its workspace back to a checkpoint.

        The history only grows and spent tokens stay spent. The workspace as it is now is kept as
        a checkpoint first, so that the session can go forward to it again.
        """
        session, target = await self.sessions.change(call, session_id, lambda one: one.rewind(to))
        return results.RewindResult(
            session=self.sessions.state(session),
            checkpoint=results.CheckpointResult.model_validate(target),
        )

    @tool("Fork a session")
    async def session_fork(
        self,
        call: Call,
        session_id: SessionId,
        at: Checkpoint,
        token_budget: Annotated[int | None, Field(ge=1, le=MAX_COUNT)] = None,
    ) -> results.ForkResult:
        """Begin a new session where another one stood at a checkpoint, with its files.

        The other one stays as it is, and may have ended.

        Args:
            token_budget: Tokens that the new one may cost; the other's, with what it has spent,
                if left out.
        """
        parent, forked = await self.sessions.change(
            call, session_id, lambda one: one.fork(at, token_budget=token_budget)
        )
        return results.ForkResult.of(
            self.sessions.state(forked), parent_id=parent.session_id, at=at
        )

    @tool("Apply a result to the checkout", Effect.DESTROYS)
    async def session_apply(
        self,
        call: Call,
        session_id: SessionId,
        at: MaybeCheckpoint = None,
        files: Annotated[list[_Path], Field(max_length=_MAX_PATHS)] = [],  # noqa: B006 (part of the schema, and never changed)
        commit: bool = False,
        message: Annotated[str | None, Field(min_length=1, max_length=_MAX_MESSAGE_CHARS)] = None,
        branch: _Name | None = None,
        dry_run: bool = False,
    ) -> results.ApplyResult:
        """Bring what a session changed into the person's checkout: as a whole, or not at all.

        That is the checkout that the session began from, else the project's. It writes to the
        person's files: do it when they asked for it, and show them a dry run first. Work that is
        not committed is never overwritten: then nothing is done, and the error names each path.

        Args:
            files: Globs of the paths that are applied, as src/**; all if empty.
            commit: Commit it, and nothing else.
            message: The commit's message.
            branch: Commit it on this new branch, and leave the checkout as it is.
            dry_run: Only say what would change.
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

        applied = await self.sessions.in_turn(call, session_id, work)
        return results.ApplyResult.of(session_id, applied, most=_MAX_PATHS)

    @tool("Export a session's files")
    async def session_export(
        self, call: Call, session_id: SessionId, folder: _Path, at: MaybeCheckpoint = None
    ) -> results.ExportResult:
        """Write a session's files to a new folder of the project, which appears whole.

        Args:
            folder: The new folder, relative to the project; nothing may be there.
        """
        target = self.project.new_folder(folder)

        def work() -> str:
            _, session = self.sessions.lead(session_id)
            return self.home.export(session, target, at=at)

        snapshot = await self.sessions.in_turn(call, session_id, work)
        return results.ExportResult(session_id=session_id, snapshot=snapshot, folder=str(target))
