"""The state of a person's checkout, read without running any program of theirs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from ...base.files import FileSystem, read_regular_file
from ..git.git_command import IndexEntry, parse_index
from ..git.git_repositories import OwnRepository, UserRepository
from ..git.git_settings import GitSettings, read_settings
from .apply_errors import CheckoutUnsupported, OperationUnderWay

MAX_INDEX: Final = 1 << 30
"""The largest index that is read, in bytes."""
_MAX_FILE: Final = 1 << 20
_OPERATIONS: Final = (
    ("rebase-merge", "rebase", "Finish it with `git rebase --continue` or --abort"),
    ("rebase-apply", "rebase or am", "Finish it with `git rebase --continue` or --abort"),
    ("MERGE_HEAD", "merge", "Finish it with `git commit` or `git merge --abort`"),
    ("CHERRY_PICK_HEAD", "cherry-pick", "Finish it with `git cherry-pick --continue` or --abort"),
    ("REVERT_HEAD", "revert", "Finish it with `git revert --continue` or --abort"),
    ("sequencer", "cherry-pick or revert", "Finish it with --continue or --abort"),
    ("BISECT_LOG", "bisect", "End it with `git bisect reset`"),
)


@frozen
class CheckoutState:
    """The state of a checkout at one moment.

    Attributes:
        top: The checkout.
        head: The commit that is checked out; None if there is none yet.
        branch: The full name of its branch; None if HEAD is detached.
        index_bytes: The index file; None if it is missing.
        index: The index's entries, by path; without those in conflict.
        unmerged: The paths in conflict.
        settings: The configuration.
        attributes: The repository's own attributes, `info/attributes`.
        excludes: The repository's own ignore rules, `info/exclude`.
        sparse: The content of `info/sparse-checkout`; None unless the checkout is sparse.
    """

    top: Path
    head: str | None
    branch: str | None
    index_bytes: bytes | None
    index: Mapping[bytes, IndexEntry]
    unmerged: tuple[bytes, ...]
    settings: GitSettings
    attributes: bytes
    excludes: bytes
    sparse: bytes | None = None


def read_state(
    repository: UserRepository,
    scratch: OwnRepository,
    *,
    fs: FileSystem,
    environment: Mapping[str, str],
) -> CheckoutState:
    """Read the state of a checkout.

    Args:
        repository: The person's repository.
        scratch: A repository of our own, in which a copy of the index is read.
        fs: The file system.
        environment: The person's environment.

    Raises:
        ReadError: A file of the repository is no regular file, or can't be read.
        GitFailed: Git can't read it.
    """
    head, branch = read_head(repository)
    content = read_index_bytes(repository, fs)
    index: dict[bytes, IndexEntry] = {}
    unmerged = []
    if content is not None:
        for path, entry in list_index(repository, scratch, content, fs):
            if entry.stage:
                unmerged.append(path)
            else:
                index[path] = entry
    info = repository.common_dir / "info"
    settings = read_settings(repository, environment)
    return CheckoutState(
        repository.work_tree,
        head,
        branch,
        content,
        index,
        tuple(dict.fromkeys(unmerged)),
        settings,
        _small(fs, info / "attributes"),
        _small(fs, info / "exclude"),
        None
        if settings.sparse is None
        else _small(fs, repository.git_dir / "info" / "sparse-checkout"),
    )


def read_head(repository: UserRepository) -> tuple[str | None, str | None]:
    """Return the commit that is checked out and the full name of its branch; either may be None."""
    both = repository.run(
        *("rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"), accept=(0, 128)
    )
    lines = os.fsdecode(both.stdout).splitlines()
    if both.exit_code == 0 and len(lines) == 2:
        return lines[0], None if lines[1] == "HEAD" else lines[1]
    # There is no commit yet, or "HEAD" is also the name of a branch or tag.
    named = repository.run("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
    found = repository.run(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"),
        accept=(0, 1, 128),
    )
    return (
        found.line if found.exit_code == 0 else None,
        named.line if named.exit_code == 0 else None,
    )


def read_index_bytes(repository: UserRepository, fs: FileSystem) -> bytes | None:
    """Return the index file, or None if it is missing."""
    path = repository.index
    return read_regular_file(fs, os.fspath(path), path=path, max_bytes=MAX_INDEX)


def list_index(
    repository: UserRepository, scratch: OwnRepository, content: bytes, fs: FileSystem
) -> list[tuple[bytes, IndexEntry]]:
    """Return the entries of an index, from a copy that stays in the scratch repository."""
    assert scratch.index is not None  # noqa: S101 (the scratch was made with one)
    scratch.index.write_bytes(content)
    for path in repository.git_dir.glob("sharedindex.*"):  # the basis of a split index
        shared = read_regular_file(fs, os.fspath(path), path=path, max_bytes=MAX_INDEX)
        if shared is not None:
            (scratch.git_dir / path.name).write_bytes(shared)
    return list(parse_index(scratch.run("ls-files", "-s", "-v", "-z").stdout))


def require_plain_checkout(repository: UserRepository, *, user: int) -> None:
    """Refuse a checkout that is not safe to write to.

    Raises:
        CheckoutUnsupported: It belongs to another user, or its repository names it as its checkout
            although it lies elsewhere.
    """
    top, git_dir = repository.work_tree, repository.git_dir
    entry = top / ".git"
    own = entry.samefile(git_dir) if entry.is_dir() else _gitfile_names(entry, git_dir)
    if not own:
        raise CheckoutUnsupported(
            top, f"its repository {git_dir} is elsewhere and only names it as its checkout"
        )
    for path in (top, git_dir):
        owner = path.stat().st_uid
        if user not in {0, owner}:
            raise CheckoutUnsupported(top, f"{path} belongs to another user (uid {owner})")


def _gitfile_names(entry: Path, git_dir: Path) -> bool:
    """Return whether a `.git` file names a directory."""
    try:
        text = os.fsdecode(entry.read_bytes()[:8192]) if entry.is_file() else ""
    except OSError:
        return False
    if not text.startswith("gitdir: "):
        return False
    named = entry.parent / text.removeprefix("gitdir: ").rstrip("\r\n")
    return named.is_dir() and named.samefile(git_dir)


def require_no_operation(repository: UserRepository, state: CheckoutState) -> None:
    """Refuse a checkout in which a git operation is in progress.

    Raises:
        OperationUnderWay: A rebase, merge, cherry-pick, revert or bisect is in progress, or
            conflicts are left.
    """
    for name, operation, finish in _OPERATIONS:
        if os.path.lexists(repository.git_dir / name):
            raise OperationUnderWay(repository.work_tree, operation, finish)
    if state.unmerged:
        raise OperationUnderWay(
            repository.work_tree, "conflict", "Resolve it and `git add` the files"
        )


def _small(fs: FileSystem, path: Path) -> bytes:
    content = read_regular_file(fs, os.fspath(path), path=path, max_bytes=_MAX_FILE)
    return b"" if content is None else content
