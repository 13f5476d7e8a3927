"""A commit by the person's own git, with their hooks, signing and configuration: if asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from ...base.program_run import Run, run_program
from ..git.git_records import joined
from ..git.git_repositories import UserRepository
from .apply_errors import CommitRefused
from .checkout_state import read_head

_TIMEOUT_S: Final = 900.0


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
        Run(
            [
                *(repository.git.program, "-C", os.fspath(repository.work_tree), "commit"),
                *("-q", "-m", message, "--only"),
                *("--pathspec-from-file=-", "--pathspec-file-nul"),
            ],
            {**environment, "GIT_LITERAL_PATHSPECS": "1", "GIT_EDITOR": "true"},
            stdin=joined(paths),
            timeout_s=_TIMEOUT_S,
        )
    )
    if ended.exit_code:
        said = (ended.stderr or ended.stdout).decode("utf-8", "backslashreplace")
        raise CommitRefused(repository.work_tree, said)
    head, _ = read_head(repository)
    assert head is not None  # noqa: S101 (git has just made it)
    return head
