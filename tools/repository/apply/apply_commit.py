"""The commit of an apply: made outside the repository, then transferred into it.

If asked, the person's own git makes it instead, with their hooks, signing and configuration.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...base.program_run import ProgramRun, run_program
from ..git.git_command import Leaf, joined
from ..git.git_repositories import UserRepository
from .applied import ApplyServices
from .apply_errors import BranchRefused, CommitRefused, NoIdentity
from .checkout_state import CheckoutState, read_head
from .scratch import Scratch

_HOOKS_S: Final = 900.0


def make_commit(
    scratch: Scratch,
    state: CheckoutState,
    *,
    parent: str | None,
    tree: str,
    message: str,
    services: ApplyServices,
) -> str:
    """Make a commit in the scratch repository, in the person's name.

    Raises:
        NoIdentity: They have no name or address configured.
    """
    theirs = services.environment
    name, address = state.settings.identity or ("", "")
    moment = services.clock().isoformat()
    identity = {
        "GIT_AUTHOR_NAME": theirs.get("GIT_AUTHOR_NAME", name),
        "GIT_AUTHOR_EMAIL": theirs.get("GIT_AUTHOR_EMAIL", address),
        "GIT_COMMITTER_NAME": theirs.get("GIT_COMMITTER_NAME", name),
        "GIT_COMMITTER_EMAIL": theirs.get("GIT_COMMITTER_EMAIL", address),
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
    }
    if not all(identity.values()):
        raise NoIdentity(state.top)
    parents = () if parent is None else ("-p", parent)
    return scratch.git.run(
        *("commit-tree", *parents, tree),
        stdin=f"{message.rstrip()}\n".encode("utf-8", "surrogateescape"),
        environment=identity,
    ).line


def pack_objects(
    scratch: Scratch,
    leaves: Iterable[Leaf | None],
    *,
    parent: str | None = None,
    commit: str | None,
    tree: str | None,
) -> tuple[str, dict[str, bytes]] | None:
    """Pack the objects that the repository may lack; return the pack's name and its files."""
    wanted = {one.oid for one in leaves if one is not None}
    if commit is not None and tree is not None:
        head = scratch.empty_tree() if parent is None else f"{parent}^{{tree}}"
        found = scratch.differences(head, tree, folders=True)
        wanted |= {one.new.oid for one in found if one.new is not None} | {commit, tree}
    if not wanted:
        return None
    packs = scratch.folder / "packs"
    packs.mkdir()
    name = scratch.git.run(
        *("pack-objects", "-q", os.fspath(packs / "pack")),
        stdin="".join(f"{one}\n" for one in sorted(wanted)).encode(),
    ).line
    stem = f"pack-{name}"
    return stem, {suffix: (packs / f"{stem}{suffix}").read_bytes() for suffix in (".pack", ".idx")}


def require_new_branch(repository: UserRepository, branch: str) -> None:
    """Refuse a name that no new branch can have.

    Raises:
        BranchRefused: It is invalid, or is taken.
    """
    checked = repository.run("check-ref-format", f"refs/heads/{branch}", accept=(0, 1))
    if checked.exit_code or branch.startswith("-") or branch == "HEAD":
        raise BranchRefused(repository.work_tree, branch, "this is no name of a branch")
    taken = repository.run("show-ref", "--verify", "--quiet", f"refs/heads/{branch}", accept=(0, 1))
    if taken.exit_code == 0:
        raise BranchRefused(repository.work_tree, branch, "there is one of that name; take another")


def commit_with_hooks(
    repository: UserRepository,
    paths: Sequence[bytes],
    message: str,
    *,
    environment: Mapping[str, str],
) -> str:
    """Commit paths as `git commit` in the checkout does, and return the commit.

    This runs programs that the repository and the person's configuration name.

    Args:
        repository: The repository.
        paths: The paths to commit; all of them are staged.
        message: The commit's message.
        environment: The person's environment.

    Raises:
        CommitRefused: Git, or a hook, did not make it.
    """
    ended = run_program(
        ProgramRun(
            [
                *(repository.git.program, "-C", os.fspath(repository.work_tree), "commit"),
                *("-q", "-m", message, "--only"),
                *("--pathspec-from-file=-", "--pathspec-file-nul"),
            ],
            {**environment, "GIT_LITERAL_PATHSPECS": "1", "GIT_EDITOR": "true"},
            stdin=joined(paths),
            timeout_s=_HOOKS_S,
        )
    )
    if ended.exit_code:
        said = (ended.stderr or ended.stdout).decode("utf-8", "backslashreplace")
        raise CommitRefused(repository.work_tree, said)
    head, _ = read_head(repository)
    assert head is not None  # noqa: S101 (git has just made it)
    return head
