"""A result as a change of a checkout's commit: the three-way merge, in a scratch repository.

A result's changes are its differences from its base, whatever the checkout's history is: the merge
is one of three commits that are made for it, the base, the checkout's tree and the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from ...base.text.path_pattern import component_matcher
from ..errors import GitFailed, RepositoryError
from ..git.git_command import Difference, IndexEntry, Leaf, joined, parse_index
from .apply_errors import ApplyConflict, ApplyRefused, BlockedPath, Obstacle
from .apply_rules import unsafe_paths
from .checkout_state import CheckoutState
from .scratch import Scratch

_BUILT_IN_MERGES: Final = frozenset({"unspecified", "set", "unset", "text", "binary", "union"})
_YOURS: Final = "yours"
_SPECIAL: Final = frozenset(b'*?[\\!#" \t')


class ObjectsMissing(RepositoryError):
    """Objects of a result, its base or the checkout can't be read; nothing was changed."""

    message = """objects of {revision} are missing: {output}; nothing was changed. In a partial
    clone, fetch them with git first."""
    revision: str
    output: str
    """What git printed."""


@frozen
class Merged:
    """The checkout after the merge.

    Attributes:
        ours: The checkout's present tree, as far as it concerns the result.
        tree: The merged tree.
        differences: The differences between the two, and what is in conflict.
        stages: The sides of each path in conflict, as git's index holds them.
    """

    ours: str
    tree: str
    differences: tuple[Difference, ...]
    stages: tuple[tuple[bytes, IndexEntry], ...] = ()

    @property
    def conflicts(self) -> tuple[bytes, ...]:
        """The paths in conflict."""
        return tuple(dict.fromkeys(path for path, _ in self.stages))


@frozen
class ResultChange:
    """The changes of a result since its base that are applied.

    Attributes:
        base: The base's tree.
        theirs: The result's tree, without what is left out.
        differences: The changes.
        ignored: The new files that the repository's rules ignore; they are left out.
        left_out: Paths outside the globs of `files`.
    """

    base: str
    theirs: str
    differences: tuple[Difference, ...]
    ignored: tuple[bytes, ...]
    left_out: tuple[bytes, ...]


def path_filter(patterns: Sequence[str]) -> Callable[[bytes], bool]:
    """Return a test of paths against globs; without a glob, every path passes.

    A glob without "/" matches a name at any depth, another one the path from the top; `**` matches
    any number of folders. A glob that matches a folder matches everything in it.
    """
    if not patterns:
        return lambda _: True
    tests = []
    for pattern in patterns:
        names = [one for one in pattern.split("/") if one not in ("", ".")]
        anywhere = "/" not in pattern.rstrip("/")
        tests.append(component_matcher(["**", *names] if anywhere else names))

    def fits(path: bytes) -> bool:
        parts = path.decode("utf-8", "surrogateescape").split("/")
        return any(test(parts[:end]) for test in tests for end in range(1, len(parts) + 1))

    return fits


def trees_of(scratch: Scratch, revisions: Sequence[str]) -> list[str]:
    """Return the trees of commits or trees by their ids.

    Raises:
        ObjectsMissing: One is missing.
    """
    trees = []
    for revision, tree in zip(revisions, scratch.trees_of(revisions), strict=True):
        if tree is None:
            raise ObjectsMissing(revision, "there is no such commit")
        trees.append(tree)
    return trees


def find_change(
    scratch: Scratch, state: CheckoutState, *, base: str, result: str, files: Sequence[str]
) -> ResultChange:
    """Return the changes of a result's tree since its base's, without ignored files.

    A submodule is no file of a workspace: one that is missing in the result stays.

    Raises:
        ApplyRefused: It has names that must not be written on any system.
        GitFailed: Git can't read something.
    """
    found = scratch.differences(base, result)
    unsafe = unsafe_paths(one.path for one in found if one.new is not None)
    if unsafe:
        raise ApplyRefused(state.top, unsafe)
    taken = {one.path for one in found if one.new is not None}
    found = [one for one in found if not _is_missing_submodule(one, taken)]
    fits = path_filter(files)
    chosen = [one for one in found if fits(one.path)]
    new = [one.path for one in chosen if one.old is None]
    all_files = _after(scratch.files_of(base), found) if new else {}
    ignored = ignored_by(scratch, all_files, new, state, name="rules.result")
    kept = tuple(one for one in chosen if one.path not in ignored)
    theirs = scratch.changed_tree(base, {one.path: one.new for one in kept}, "index.theirs")
    left_out = tuple(one.path for one in found if not fits(one.path))
    return ResultChange(base, theirs, kept, tuple(sorted(ignored)), left_out)


def _is_missing_submodule(one: Difference, taken: set[bytes]) -> bool:
    if one.old is None or not one.old.is_submodule or one.new is not None:
        return False
    return not any(path.startswith(one.path + b"/") for path in taken)


def _after(files: Mapping[bytes, Leaf], differences: Sequence[Difference]) -> Mapping[bytes, Leaf]:
    """Return a tree's files with the differences of another one applied."""
    removed = {one.path for one in differences if one.new is None}
    kept = {path: leaf for path, leaf in files.items() if path not in removed}
    return kept | {one.path: one.new for one in differences if one.new is not None}


def ignored_by(
    scratch: Scratch,
    files: Mapping[bytes, Leaf],
    paths: Sequence[bytes],
    state: CheckoutState,
    *,
    name: str,
) -> set[bytes]:
    """Return which paths are ignored, by the `.gitignore` among files and the person's rules.

    Args:
        scratch: The scratch repository, in which git answers.
        files: A tree's files.
        paths: The paths.
        state: The checkout, with the person's configuration and rules.
        name: The name of the folder that the rules are written to, used once.
    """
    if not paths:
        return set()
    rules: dict[bytes, Leaf | None] = {
        path: leaf
        for path, leaf in files.items()
        if path.split(b"/")[-1] == b".gitignore" and leaf.mode.startswith("100")
    }
    index = scratch.index(f"index.{name}", name)
    if rules:
        scratch.put(index, rules)
        index.run("checkout-index", "-a", "-f")
    scratch.info("exclude", state.excludes)
    output = index.run(
        *("check-ignore", "-z", "--stdin", "--no-index"),
        stdin=joined([b"./" + one for one in paths]),  # else a leading ":" would be pathspec magic
        accept=(0, 1),
        configuration=state.settings.ignoring(),
        environment={"GIT_LITERAL_PATHSPECS": "0"},  # which this command does not support
    )
    return {one.removeprefix(b"./") for one in output.names}


def merge(
    scratch: Scratch, change: ResultChange, ours: str, state: CheckoutState, marked: str | None
) -> Merged:
    """Merge a change into a tree; nothing but the scratch repository is written.

    Args:
        scratch: The scratch repository.
        change: The change.
        ours: The tree.
        state: The checkout.
        marked: The result's name in conflict markers, which are then in the merged tree as
            `git merge` writes them; None for no conflicts.

    Raises:
        ApplyConflict: Both changed the same lines.
        ApplyRefused: A merge program of the person would have to run.
        ObjectsMissing: A file's content is missing.
    """
    if ours in {change.base, change.theirs}:  # one side alone, or both alike: nothing to merge
        return Merged(ours, change.theirs, tuple(scratch.differences(ours, change.theirs)))
    _choose_merges(scratch, change, ours, state)
    base = scratch.commit(change.base)
    sides = (_YOURS, "".join(one if one.isalnum() else "_" for one in marked or "") or "result")
    for name, tree in zip(sides, (ours, change.theirs), strict=True):
        scratch.branch(name, scratch.commit(tree, base))
    style = state.settings.values.get("merge.conflictstyle")
    try:
        output = scratch.git.run(
            *("merge-tree", "--write-tree", "-z", "--no-messages", *sides),
            accept=(0, 1),
            configuration={} if style is None else {"merge.conflictStyle": style},
        )
    except GitFailed as error:
        raise ObjectsMissing(ours, error.output) from error
    merged, *entries = output.names
    stages = tuple(parse_index(b"".join(b"H " + one + b"\0" for one in entries)))
    tree = merged.decode("ascii")
    found = scratch.differences(ours, tree)
    # Of files that collide after renames git stages the markers, and leaves no path in conflict.
    if output.exit_code and (marked is None or not stages):
        paths = {path for path, _ in stages} or {one.path for one in found}
        raise ApplyConflict(state.top, sorted(map(os.fsdecode, paths)))
    mine = scratch.files_of(ours) if stages else {}
    same = {path for path, _ in stages} - {one.path for one in found}
    found += [Difference(path, mine.get(path), mine.get(path)) for path in sorted(same)]
    return Merged(ours, tree, tuple(found), stages)


def _choose_merges(scratch: Scratch, change: ResultChange, ours: str, state: CheckoutState) -> None:
    """Set each file's merge driver by the checkout's attributes; git reads none without files."""
    mine = scratch.files_of(ours)
    both = [one.path for one in change.differences if mine.get(one.path) != one.old]
    scratch.info("attributes", state.attributes)
    index = scratch.index_of(ours, "index.ours") if both else scratch.git
    found = scratch.attributes(index, ["merge"], both, state.settings.converting())
    chosen = {path: one["merge"] for path, one in found.items()}
    foreign = [
        BlockedPath(path.decode("utf-8", "surrogateescape"), Obstacle.MERGE_DRIVER, value)
        for path, value in chosen.items()
        if f"merge.{value}.driver" in state.settings.values
    ]
    if foreign:
        raise ApplyRefused(state.top, foreign)
    scratch.info("attributes", b"".join(_line(path, value) for path, value in chosen.items()))


def _line(path: bytes, value: str) -> bytes:
    """Return the line of an attributes file that sets exactly one path's merge driver."""
    if value not in _BUILT_IN_MERGES:
        value = "text"  # git's choice for an undefined driver
    if value == "unspecified":
        return b""
    glob = b"/" + b"".join(
        b"\\" + bytes([one]) if one in _SPECIAL else bytes([one]) for one in path
    )
    quoted = b"".join(
        b"\\%03o" % one if one < 32 or one > 126 or one in b'"\\' else bytes([one]) for one in glob
    )
    word = {"set": b"merge", "unset": b"-merge"}.get(value, b"merge=" + value.encode())
    return b'"' + quoted + b'" ' + word + b"\n"
