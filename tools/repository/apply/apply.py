"""Applying a result to a person's checkout: as a whole, or not at all.

    plan_apply(checkout, base=..., result=..., objects=[...])       # what would happen
    apply_result(checkout, base=..., result=..., objects=[...])

Guarantees: no uncommitted work is overwritten; after a refusal, a conflict or an error the checkout
is unchanged; after a kill at any instant `continue_apply` finishes the apply, or `abort_apply`
restores the former state, to the byte. No hook, filter or other program of the repository runs
unless the caller asks for it. Not guaranteed: a write of another program to the very same file in
the microseconds between our last look and our rename.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import evolve

from .applied import Applied, AppliedPath, ApplyServices
from .apply_commit import commit_with_hooks, make_commit, pack_objects, require_new_branch
from .apply_errors import ApplyFailed, CheckoutBusy, NoUnfinishedApply
from .apply_journal import ApplyRecord, RefChange, sweep_journals, write_journal
from .apply_plan import ApplyOptions, ApplyPlan, make_plan, plan_branch
from .apply_run import (
    carry_out,
    checkout_at,
    go_back,
    go_forward,
    locked,
    open_steps,
    require_finished,
)
from .apply_steps import INDEX_LOCK, digest_of, install_pack
from .checkout_state import CheckoutState, read_state, require_no_operation
from .scratch import Scratch, open_scratch

_INDEX_MODE: Final = 0o644


def plan_apply(
    checkout: Path,
    *,
    base: str,
    result: str,
    objects: Sequence[Path],
    options: ApplyOptions | None = None,
    services: ApplyServices | None = None,
) -> Applied:
    """Return what `apply_result` would do; nothing is changed.

    Raises:
        RepositoryError: As for `apply_result`.
    """
    return _Apply(checkout, base, result, objects, options, services).foresee()


def apply_result(
    checkout: Path,
    *,
    base: str,
    result: str,
    objects: Sequence[Path],
    label: str = "a result",
    options: ApplyOptions | None = None,
    services: ApplyServices | None = None,
) -> Applied:
    """Apply a result's changes since its base to a checkout: as a whole, or not at all.

    The changed files are written and staged; other staged changes of the person stay.

    Args:
        checkout: The checkout, or a folder in it.
        base: The commit, or tree, that the work started from.
        result: The one that it ended with.
        objects: Directories with their objects, where the repository does not have them.
        label: The result's name, for messages.
        options: The options; the defaults if None.
        services: Git, files and time.

    Returns:
        What was done; `nothing_to_do` if the checkout had all of it.

    Raises:
        ApplyRefused: Work of the person would be lost; lists every path.
        ApplyConflict: The checkout's commit changed the same lines.
        OperationUnderWay: A rebase or the like is in progress.
        UnfinishedApply: An earlier apply was interrupted.
        CheckoutBusy: Another program holds the index.
        CheckoutChanged: The checkout changed meanwhile.
        ApplyFailed: The system refused; says whether everything was undone.
        CommitRefused: It is applied, but a hook refused the commit.
        NotARepository: There is no checkout.
    """
    return _Apply(checkout, base, result, objects, options, services, label).carry_out()


def continue_apply(checkout: Path, *, services: ApplyServices | None = None) -> Applied:
    """Finish an interrupted apply.

    Raises:
        NoUnfinishedApply: There is none.
        ApplyDiverged: Files were changed since; nothing more was changed.
        JournalDamaged: Its record can't be used.
        CheckoutBusy: Another program is at work.
        ApplyFailed: The system refused.
    """
    return _resume(checkout, services, forward=True)


def abort_apply(checkout: Path, *, services: ApplyServices | None = None) -> Applied:
    """Undo an interrupted apply: files, index and branch are as before.

    Returns:
        What was undone.

    Raises:
        NoUnfinishedApply: As for `continue_apply`; so are the others.
    """
    return _resume(checkout, services, forward=False)


def _resume(checkout: Path, services: ApplyServices | None, *, forward: bool) -> Applied:
    services = services if services is not None else ApplyServices()
    repository = checkout_at(checkout, services)
    with (
        locked(repository, services) as git_dir_fd,
        open_steps(repository, services, git_dir_fd) as steps,
    ):
        if steps is None:
            raise NoUnfinishedApply(repository.work_tree)
        record = steps.journal.record
        try:
            steps.hold_index()
            steps.require_known()
            if forward:
                go_forward(steps)
            else:
                go_back(steps)
        except OSError as error:
            raise ApplyFailed(repository.work_tree, error, undone=False) from error
        return Applied(
            checkout=repository.work_tree,
            paths=tuple(map(AppliedPath.of_planned, record.paths)),
            commit=record.ref.new if forward and record.ref is not None else None,
        )


class _Apply:
    """One apply."""

    def __init__(
        self,
        checkout: Path,
        base: str,
        result: str,
        objects: Sequence[Path],
        options: ApplyOptions | None,
        services: ApplyServices | None,
        label: str = "",
    ) -> None:
        self._services = services if services is not None else ApplyServices()
        self._options = options if options is not None else ApplyOptions()
        self._repository = checkout_at(checkout, self._services)
        self._base = base
        self._result = result
        self._objects = objects
        self._label = label
        self._message = self._options.message or f"Apply {label}"

    def foresee(self) -> Applied:
        """Return what `carry_out` would do."""
        with self._opened() as (_, scratch, state):
            if self._options.branch is not None:
                applied, _, _ = self._branch_plan(scratch, state, self._options.branch)
            else:
                applied = self._applied(self._plan(scratch, state))
        return evolve(applied, dry_run=True)

    def carry_out(self) -> Applied:
        """Apply the result."""
        services = self._services
        with self._opened() as (git_dir_fd, scratch, state):
            if self._options.branch is not None:
                return self._to_branch(scratch, state, self._options.branch)
            sweep_journals(services.fs, git_dir_fd, self._repository.git_dir)
            plan = self._plan(scratch, state)
            commit = self._commit(scratch, state, plan)
            if plan.paths or plan.index is not None or commit is not None:
                self._write_journal(git_dir_fd, scratch, state, plan, commit)
                carry_out(self._repository, services, git_dir_fd, state)
        applied = evolve(self._applied(plan), commit=commit)
        if self._options.commit and self._options.hooks and plan.merged.differences:
            paths = [one.path for one in plan.merged.differences]
            commit = commit_with_hooks(
                self._repository, paths, self._message, environment=services.environment
            )
            return evolve(applied, commit=commit)
        return applied

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, Scratch, CheckoutState]]:
        """Yield the locked git directory, a scratch repository and the checkout's state.

        Only what writes to the checkout needs one in which nothing else is under way.
        """
        repository, services = self._repository, self._services
        with locked(repository, services) as git_dir_fd:
            writes = self._options.branch is None
            if writes:
                require_finished(repository, services, git_dir_fd)
            with open_scratch(repository, self._objects, parent=services.scratch) as scratch:
                state = read_state(
                    repository, scratch.git, fs=services.fs, environment=services.environment
                )
                if writes:
                    require_no_operation(repository, state)
                lock = repository.git_dir / INDEX_LOCK
                if writes and os.path.lexists(lock):
                    raise CheckoutBusy(repository.work_tree, lock)
                yield git_dir_fd, scratch, state

    def _plan(self, scratch: Scratch, state: CheckoutState) -> ApplyPlan:
        return make_plan(
            self._repository,
            scratch,
            state,
            base=self._base,
            result=self._result,
            options=self._options,
            label=self._label.rpartition(" ")[2],
            fs=self._services.fs,
        )

    def _applied(self, plan: ApplyPlan) -> Applied:
        conflicts = plan.merged.conflicts
        return Applied(
            checkout=self._repository.work_tree,
            paths=tuple(
                AppliedPath.of_planned(one) for one in plan.paths if one.path not in conflicts
            ),
            conflicts=tuple(map(os.fsdecode, conflicts)),
            already=tuple(map(os.fsdecode, plan.already)),
            ignored=tuple(map(os.fsdecode, plan.change.ignored)),
            left_out=tuple(map(os.fsdecode, plan.change.left_out)),
        )

    def _commit(self, scratch: Scratch, state: CheckoutState, plan: ApplyPlan) -> str | None:
        if plan.tree is None or not plan.merged.differences:
            return None
        return self._made_commit(scratch, state, state.head, plan.tree)

    def _made_commit(
        self, scratch: Scratch, state: CheckoutState, parent: str | None, tree: str
    ) -> str:
        return make_commit(
            scratch,
            state,
            parent=parent,
            tree=tree,
            message=self._message,
            services=self._services,
        )

    def _write_journal(
        self,
        git_dir_fd: int,
        scratch: Scratch,
        state: CheckoutState,
        plan: ApplyPlan,
        commit: str | None,
    ) -> None:
        leaves = [one.new for one in plan.merged.differences] + [
            one.leaf for _, one in plan.merged.stages
        ]
        pack = pack_objects(scratch, leaves, parent=state.head, commit=commit, tree=plan.tree)
        mode = _INDEX_MODE
        if state.index_bytes is not None:
            mode = self._repository.index.stat().st_mode & 0o777
        record = ApplyRecord(
            token=self._services.token(),
            label=self._label,
            checkout=os.fspath(self._repository.work_tree),
            head=state.head,
            branch=state.branch,
            paths=plan.paths,
            folders=plan.folders,
            index_before=digest_of(state.index_bytes),
            index_after=digest_of(plan.index),
            index_mode=mode,
            pack=None if pack is None else pack[0],
            ref=None if commit is None else RefChange(state.head, commit),
        )
        try:
            write_journal(
                self._services.fs,
                git_dir_fd,
                record,
                before=scratch.folder / "before",
                after=scratch.folder / "after",
                index_before=state.index_bytes,
                index_after=plan.index,
                pack={} if pack is None else pack[1],
            )
        except OSError as error:
            raise ApplyFailed(self._repository.work_tree, error, undone=True) from error

    # ------------------------------------------------------------------------------ on a branch

    def _branch_plan(
        self, scratch: Scratch, state: CheckoutState, branch: str
    ) -> tuple[Applied, str | None, str]:
        """Return what a branch changes, its parent, and its tree."""
        require_new_branch(self._repository, branch)
        change, parent, tree = plan_branch(
            self._repository,
            scratch,
            state,
            base=self._base,
            result=self._result,
            files=self._options.files,
        )
        applied = Applied(
            checkout=self._repository.work_tree,
            paths=tuple(map(AppliedPath.of_difference, change.differences)),
            ignored=tuple(map(os.fsdecode, change.ignored)),
            left_out=tuple(map(os.fsdecode, change.left_out)),
            branch=branch if change.differences else None,
        )
        return applied, parent, tree

    def _to_branch(self, scratch: Scratch, state: CheckoutState, branch: str) -> Applied:
        """Commit the result on its own branch; files, index and HEAD stay unchanged."""
        applied, parent, tree = self._branch_plan(scratch, state, branch)
        if not applied.paths:
            return applied
        commit = self._made_commit(scratch, state, parent, tree)
        pack = pack_objects(scratch, (), parent=parent, commit=commit, tree=tree)
        assert pack is not None  # noqa: S101 (a commit is an object)
        try:
            install_pack(self._services.fs, self._repository.objects, *pack)
        except OSError as error:
            raise ApplyFailed(self._repository.work_tree, error, undone=True) from error
        self._repository.change(
            *("update-ref", "-m", f"agentforge: apply {self._label}"),
            *(f"refs/heads/{branch}", commit, "0" * len(commit)),
        )
        return evolve(applied, commit=commit)
