"""What an apply would do to a checkout, found in a scratch repository; nothing is changed.

The module is long because a plan is one finding: each path has to be examined in the result, the
index and the checkout together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from ...base.files import FileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS, opened
from ..git.git_command import Difference, IndexEntry, Leaf, joined
from ..git.git_repositories import OwnRepository, UserRepository
from .apply_errors import ApplyRefused, BlockedPath, Obstacle
from .apply_rules import Action, PathFacts, case_clashes, decide
from .checkout_files import (
    ABSENT,
    EntryKind,
    PathState,
    PlannedPath,
    contents_below,
    copy_of,
    folder_modes,
    folders_above,
    look_at,
    names_in,
)
from .checkout_state import CheckoutState
from .result_merge import Merged, ResultChange, find_change, ignored_by, merge, trees_of
from .scratch import PROTECTING, Scratch

_MOST_SHOWN_BELOW: Final = 10_000


@frozen(kw_only=True)
class ApplyOptions:
    """How a result is applied.

    Attributes:
        files: Globs of the paths to apply; all if empty.
        commit: Whether to commit it.
        message: The commit's message; a default one if None.
        branch: A branch to make for the commit, from the base; the checkout stays unchanged.
        merge: Whether conflicts are written into the files with markers; not with a commit.
        hooks: Whether the person's own git commits, with the repository's hooks and signing.
        run_filters: Whether filter programs of the person's configuration run, such as Git LFS.
    """

    files: Sequence[str] = ()
    commit: bool = False
    message: str | None = None
    branch: str | None = None
    merge: bool = False
    hooks: bool = False
    run_filters: bool = False

    @property
    def commits(self) -> bool:
        """Whether the commit is made together with the files."""
        return self.commit and not self.hooks


@frozen(kw_only=True)
class ApplyPlan:
    """What an apply does.

    Attributes:
        paths: What is written.
        already: Paths that have the result's content already.
        change: The result's changes.
        merged: The checkout with them.
        folders: The folders on the way, and those that make room, with modes; None for new ones.
        index: The new index; None if it stays unchanged.
        tree: The tree of a commit; None without one.
    """

    paths: tuple[PlannedPath, ...]
    already: tuple[bytes, ...]
    change: ResultChange
    merged: Merged
    folders: Mapping[bytes, int | None]
    index: bytes | None
    tree: str | None


@frozen(kw_only=True)
class _Look:
    """The sources of a plan.

    Attributes:
        repository: The person's.
        scratch: Ours.
        state: The state of the checkout.
        options: The options.
        label: The result's name.
        fs: The file system.
        top_fd: The checkout, open.
    """

    repository: UserRepository
    scratch: Scratch
    state: CheckoutState
    options: ApplyOptions
    label: str
    fs: FileSystem
    top_fd: int


def make_plan(
    repository: UserRepository,
    scratch: Scratch,
    state: CheckoutState,
    *,
    base: str,
    result: str,
    options: ApplyOptions,
    label: str,
    fs: FileSystem,
) -> ApplyPlan:
    """Return what applying a result does to a checkout, which is not changed.

    Raises:
        ApplyRefused: Work of the person would be lost; lists every path.
        ApplyConflict: The checkout's commit changed the same lines.
        ObjectsMissing: Objects of the result or its base are missing.
        GitFailed: Git can't read something.
        OSError: The system refused.
    """
    heads = [] if state.head is None else [state.head]
    base_tree, result_tree, *head = trees_of(scratch, [base, result, *heads])
    change = find_change(scratch, state, base=base_tree, result=result_tree, files=options.files)
    with opened(fs, os.fspath(repository.work_tree), DIRECTORY_FLAGS & ~os.O_NOFOLLOW) as top_fd:
        look = _Look(
            repository=repository,
            scratch=scratch,
            state=state,
            options=options,
            label=label,
            fs=fs,
            top_fd=top_fd,
        )
        return _plan(look, change, head[0] if head else scratch.empty_tree())


def plan_branch(
    repository: UserRepository,
    scratch: Scratch,
    state: CheckoutState,
    *,
    base: str,
    result: str,
    files: Sequence[str],
) -> tuple[ResultChange, str | None, str]:
    """Return what a branch of a result's own is: its change, its parent and its tree.

    The parent is the base, if the repository has it, else the last commit before it that it has,
    else the one that is checked out. The tree is the parent's with the result's files, so that
    nothing can conflict.

    Raises:
        ApplyRefused: It has names that must not be written on any system.
        ObjectsMissing: Objects of the result or its base are missing.
        GitFailed: Git can't read something.
    """
    base_tree, result_tree = trees_of(scratch, [base, result])
    change = find_change(scratch, state, base=base_tree, result=result_tree, files=files)
    line = scratch.git.run("rev-list", "--first-parent", "-n", "2", base, accept=(0, 128))
    parent = state.head
    for one in line.stdout.decode("ascii").split():
        if repository.run("cat-file", "-e", f"{one}^{{commit}}", accept=(0, 1, 128)).exit_code == 0:
            parent = one
            break
    old = scratch.empty_tree() if parent is None else trees_of(scratch, [parent])[0]
    new = {one.path: one.new for one in change.differences}
    return change, parent, scratch.changed_tree(old, new, "index.branch")


def _plan(look: _Look, change: ResultChange, head: str) -> ApplyPlan:
    heads = look.scratch.files_of(head)
    before = look.scratch.folder / "before"
    before.mkdir()
    changed = [one.path for one in change.differences]
    standing = copy_of(look.fs, look.top_fd, changed, before)
    contents = _contents(look, head, standing, before)
    laid, done = _uncommitted(change, heads, contents)
    if look.options.commits:
        _require(look, [_blocked(one, Obstacle.UNCOMMITTED_BASE) for one in done])
    ours = look.scratch.changed_tree(head, laid, "index.laid")
    marked = look.label if look.options.merge and not look.options.commit else None
    merged = merge(look.scratch, change, ours, look.state, marked)
    touched = [one.path for one in merged.differences]
    more = [path for path in touched if path not in standing]
    if more:
        standing |= copy_of(look.fs, look.top_fd, more, before)
        contents = _contents(look, head, standing, before)
    plan = _decided(look, change, merged, heads, standing, contents, head)
    return evolve(plan, already=tuple(sorted({*plan.already, *done})))


def _uncommitted(
    change: ResultChange,
    heads: Mapping[bytes, Leaf],
    contents: Mapping[bytes, Leaf],
) -> tuple[dict[bytes, Leaf | None], list[bytes]]:
    """Return the uncommitted files that have the content of the result or of its base.

    The merge takes these as the checkout's content, instead of that of HEAD.

    Returns:
        All of them, and the paths that have the result's content.
    """
    laid: dict[bytes, Leaf | None] = {}
    done = []
    for one in change.differences:
        content = contents.get(one.path)
        if heads.get(one.path) in {one.old, content}:
            continue
        if content in {one.old, one.new}:
            laid[one.path] = content
            if content == one.new:
                done.append(one.path)
    return laid, done


def _decided(
    look: _Look,
    change: ResultChange,
    merged: Merged,
    heads: Mapping[bytes, Leaf],
    standing: Mapping[bytes, PathState],
    contents: Mapping[bytes, Leaf],
    head: str,
) -> ApplyPlan:
    ignored = _ignored(look, merged, heads, standing)
    outside = _outside(look, merged)
    actions: dict[bytes, Action] = {}
    blocked: list[BlockedPath] = []
    conflicts = set(merged.conflicts)
    for one in merged.differences:
        facts = PathFacts(
            head=heads.get(one.path),
            ours=one.old,
            merged=one.new,
            index=look.state.index.get(one.path),
            standing=standing[one.path],
            content=contents.get(one.path),
            ignored=one.path in ignored,
            outside=one.path in outside,
            conflicted=one.path in conflicts,
        )
        decision = decide(facts, committing=look.options.commits)
        if isinstance(decision, Action):
            actions[one.path] = decision
        else:
            detail = standing[one.path].blocker
            blocked.append(_blocked(one.path, decision, detail))
    written = [
        one
        for one in merged.differences
        if actions.get(one.path) in {Action.WRITE, Action.WRITE_UNSTAGED}
    ]
    rooms, in_the_way = _around(look, written, standing)
    blocked += in_the_way
    index_m = look.scratch.index("index.merged", "after")
    if merged.differences:
        index_m.run("read-tree", merged.tree, configuration=PROTECTING)
    blocked += _filtered(look, index_m, [one.path for one in written])
    _require(look, blocked)
    after = _checked_out(look, index_m, written)
    planned = tuple(
        PlannedPath(
            one.path,
            _no_folder(standing[one.path]),
            ABSENT if one.new is None else _with_modes_kept(standing[one.path], after[one.path]),
        )
        for one in written
    )
    staged = {
        one.path: one.new
        for one in merged.differences
        if actions[one.path] in {Action.WRITE, Action.ALREADY_STAGED} and one.path not in conflicts
    }
    tree = _tree_of_commit(look, merged, head, staged) if look.options.commits else None
    folders = [*folders_above(one.path for one in written), *rooms]
    return ApplyPlan(
        paths=planned,
        already=tuple(path for path, one in actions.items() if one is Action.ALREADY),
        change=change,
        merged=merged,
        folders=folder_modes(look.fs, look.top_fd, sorted(set(folders))),
        index=_new_index(look, staged, merged.stages),
        tree=tree,
    )


def _tree_of_commit(
    look: _Look, merged: Merged, head: str, staged: Mapping[bytes, Leaf | None]
) -> str:
    """Return HEAD's tree with what is staged: the merged one if there is no other difference."""
    if merged.ours == head and len(staged) == len(merged.differences):
        return merged.tree
    return look.scratch.changed_tree(head, staged, "index.commit")


def _ignored(
    look: _Look,
    merged: Merged,
    heads: Mapping[bytes, Leaf],
    standing: Mapping[bytes, PathState],
) -> set[bytes]:
    """Return the changed paths that are here, that HEAD does not have and that are ignored."""
    there = [
        one.path
        for one in merged.differences
        if one.path not in heads and standing[one.path].kind is not EntryKind.ABSENT
    ]
    files = look.scratch.files_of(merged.ours) if there else {}
    return ignored_by(look.scratch, files, there, look.state, name="rules.ours")


def _outside(look: _Look, merged: Merged) -> set[bytes]:
    """Return the new paths outside a sparse checkout."""
    sparse, new = look.state.sparse, [one.path for one in merged.differences if one.old is None]
    if sparse is None or not new:
        return set()
    return look.scratch.outside(new, sparse, cone=look.state.settings.sparse is True)


def _no_folder(standing: PathState) -> PathState:
    """Return a path's state, absent if it is a folder; folders are recorded separately."""
    return ABSENT if standing.kind is EntryKind.FOLDER else standing


def _with_modes_kept(before: PathState, after: PathState) -> PathState:
    """Return a path's new state: a restricted file keeps its permission bits."""
    if before.kind is EntryKind.FILE and after.kind is EntryKind.FILE:
        executable = bool(after.mode & 0o100)
        if executable == bool(before.mode & 0o100):
            return evolve(after, mode=before.mode)
    return after


def _contents(
    look: _Look, head: str, standing: Mapping[bytes, PathState], before: Path
) -> dict[bytes, Leaf]:
    """Return the content of paths as git would store it."""
    paths = [path for path, one in standing.items() if one.kind in {EntryKind.FILE, EntryKind.LINK}]
    if not paths:
        return {}
    look.scratch.info("attributes", look.state.attributes)
    index = look.scratch.index_of(head, "index.standing", before.name)
    heads = look.scratch.files_of(head)
    known: dict[bytes, Leaf | None] = dict.fromkeys((set(standing) - set(paths)) & set(heads))
    if not look.state.settings.trusts_modes:  # then the index has the file's mode
        entries = {path: look.state.index.get(path) for path in paths}
        known |= {path: one.leaf for path, one in entries.items() if one is not None}
    if known:
        look.scratch.put(index, known)
    where, also = _converting(look, index)
    where.run(
        *("update-index", "-z", "--add", "--replace", "--stdin"),
        stdin=joined(paths),
        configuration=look.state.settings.converting() | also,
        environment=_person(look),
    )
    wanted = set(paths)
    return {path: leaf for path, leaf in look.scratch.listed(index).items() if path in wanted}


def _converting(look: _Look, index: OwnRepository) -> tuple[OwnRepository, dict[str, str]]:
    """Return the repository that turns files into contents; the person's if their filters run."""
    if not look.options.run_filters:
        return index, {}
    there = OwnRepository(
        look.repository.git_dir, index.work_tree, index.index, git=look.repository.git
    )
    return there, look.state.settings.filters()


def _person(look: _Look) -> dict[str, str]:
    """Return the environment that the person's filters need, if they run."""
    if not look.options.run_filters:
        return {}
    theirs = look.state.settings.environment
    ours = look.scratch.git.git_dir / "objects"
    alternates = (ours / "info" / "alternates").read_bytes()
    return {
        **{name: theirs[name] for name in ("HOME", "PATH", "XDG_CONFIG_HOME") if name in theirs},
        "GIT_OBJECT_DIRECTORY": os.fspath(ours),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(b":".join(alternates.splitlines())),
    }


def _filtered(look: _Look, index: OwnRepository, paths: Sequence[bytes]) -> list[BlockedPath]:
    """Return the paths that a filter program of the person handles."""
    if look.options.run_filters or not look.state.settings.filters():
        return []
    look.scratch.info("attributes", look.state.attributes)
    converting = look.state.settings.converting()
    found = []
    for path, one in look.scratch.attributes(index, ["filter"], paths, converting).items():
        name = one["filter"]
        if name not in {"unspecified", "unset"} and look.state.settings.has_filter(name):
            found.append(_blocked(path, Obstacle.FILTER, name))
    return found


def _checked_out(
    look: _Look, index: OwnRepository, written: Sequence[Difference]
) -> dict[bytes, PathState]:
    """Have git write the new files, and return the new state of each path."""
    look.scratch.info("attributes", look.state.attributes)
    present = [one.path for one in written if one.new is not None]
    where, also = _converting(look, index)
    if present:
        where.run(
            *("checkout-index", "-f", "-z", "--stdin"),
            stdin=joined(present),
            configuration=look.state.settings.converting() | also,
            environment=_person(look),
        )
    assert index.work_tree is not None  # noqa: S101 (it was given one)
    with opened(look.fs, os.fspath(index.work_tree), DIRECTORY_FLAGS) as fd:
        found = {one.path: look_at(look.fs, fd, one.path)[0] for one in written}
    missing = [path for path in present if found[path].kind is EntryKind.ABSENT]
    _require(look, [_blocked(path, Obstacle.UNSAFE_NAME) for path in missing])
    return found


def _new_index(
    look: _Look,
    staged: Mapping[bytes, Leaf | None],
    stages: Sequence[tuple[bytes, IndexEntry]],
) -> bytes | None:
    """Return the person's index with the staged changes and conflicts; None if there are none."""
    current = {path: entry.leaf for path, entry in look.state.index.items()}
    changes = {path: leaf for path, leaf in staged.items() if current.get(path) != leaf}
    if not changes and not stages:
        return None
    index = look.scratch.index("index.new")
    assert index.index is not None  # noqa: S101 (it was given one)
    if look.state.index_bytes is not None:
        index.index.write_bytes(look.state.index_bytes)
    look.scratch.put(index, changes, {"core.splitIndex": "false", **PROTECTING}, stages)
    listed = look.scratch.listed(index)
    refused = [path for path, leaf in changes.items() if listed.get(path) != leaf]
    _require(look, [_blocked(path, Obstacle.UNSAFE_NAME) for path in refused])
    return index.index.read_bytes()


# ---------------------------------------------------------------------------- the surroundings


def _around(
    look: _Look, written: Sequence[Difference], standing: Mapping[bytes, PathState]
) -> tuple[list[bytes], list[BlockedPath]]:
    """Return the folders that make room for files, and the obstacles on the paths."""
    removed = {one.path for one in written if one.new is None}
    rooms: list[bytes] = []
    blocked: list[BlockedPath] = []
    for one in written:
        if one.new is None:
            continue
        blocked += _on_the_way(look, one.path, removed)
        if standing[one.path].kind is EntryKind.FOLDER:
            files, folders = contents_below(look.fs, look.top_fd, one.path, _MOST_SHOWN_BELOW)
            others = [path for path in files if path not in removed]
            if others or len(files) + len(folders) >= _MOST_SHOWN_BELOW:
                shown = ", ".join(os.fsdecode(path) for path in others[:3])
                blocked.append(_blocked(one.path, Obstacle.FOLDER_IN_THE_WAY, shown))
            rooms += [one.path, *folders]
    new = [one.path for one in written if one.old is None]
    blocked += case_clashes(new, _names_afterwards(look, new, written, removed))
    return rooms, blocked


def _on_the_way(look: _Look, path: bytes, removed: set[bytes]) -> list[BlockedPath]:
    for folder in folders_above([path]):
        names = names_in(look.fs, look.top_fd, folder)
        if ".git" in names:
            return [_blocked(path, Obstacle.OTHER_REPOSITORY, os.fsdecode(folder))]
        if not names and folder not in removed and _is_other(look, folder):
            return [_blocked(path, Obstacle.FILE_IN_THE_WAY, os.fsdecode(folder))]
    return []


def _is_other(look: _Look, path: bytes) -> bool:
    """Return whether something other than a folder is where a folder has to be."""
    standing, _ = look_at(look.fs, look.top_fd, path)
    return standing.kind not in {EntryKind.ABSENT, EntryKind.FOLDER}


def _names_afterwards(
    look: _Look, new: Sequence[bytes], written: Sequence[Difference], removed: set[bytes]
) -> dict[bytes, set[bytes]]:
    """Return the names that the folders on the way to new paths will contain."""
    present: dict[bytes, set[bytes]] = {}
    for folder in {b"", *folders_above(new)}:
        names = map(os.fsencode, names_in(look.fs, look.top_fd, folder))
        prefix = folder + b"/" if folder else b""
        present[folder] = {name for name in names if prefix + name not in removed}
    for one in written:
        if one.new is not None:
            parts = one.path.split(b"/")
            for position, name in enumerate(parts):
                folder = b"/".join(parts[:position])
                if folder in present:
                    present[folder].add(name)
    _drop_emptied(look, present, removed)
    return present


def _drop_emptied(look: _Look, present: dict[bytes, set[bytes]], removed: set[bytes]) -> None:
    """Remove folders that lose all their entries."""
    for folder in sorted(folders_above(removed), reverse=True):
        above, _, name = folder.rpartition(b"/")
        if above not in present or name not in present[above]:
            continue
        prefix = folder + b"/"
        left = present.get(folder)
        if left is None:
            names = map(os.fsencode, names_in(look.fs, look.top_fd, folder))
            left = {one for one in names if prefix + one not in removed}
        if not left:
            present[above].discard(name)


def _blocked(path: bytes, obstacle: Obstacle, detail: str = "") -> BlockedPath:
    return BlockedPath(path.decode("utf-8", "surrogateescape"), obstacle, detail)


def _require(look: _Look, blocked: Sequence[BlockedPath]) -> None:
    if blocked:
        raise ApplyRefused(look.state.top, sorted(blocked, key=lambda one: one.path))
