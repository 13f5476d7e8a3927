"""Git repositories: a person's, read and changed with care, and the snapshots of a workspace.

This package knows git and directories, and neither sessions nor workflows.
"""

from .errors import (
    GitFailed,
    GitOutputTooLarge,
    GitTimedOut,
    GitUnavailable,
    NotARepository,
    RepositoryError,
    UnknownRevision,
)
from .git.git_command import Git, GitOutput
from .git.git_repositories import OwnRepository, UserRepository

__all__ = [
    "Git",
    "GitFailed",
    "GitOutput",
    "GitOutputTooLarge",
    "GitTimedOut",
    "GitUnavailable",
    "NotARepository",
    "OwnRepository",
    "RepositoryError",
    "UnknownRevision",
    "UserRepository",
]
