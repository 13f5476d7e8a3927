"""What can prevent applying a result to a person's checkout, as typed errors."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from attrs import frozen

from ...base.errors import ErrorKind, counted
from ..errors import RepositoryError, printable


class Obstacle(Enum):
    """Why a path can't be written."""

    STAGED = "it has staged changes"
    MODIFIED = "it has changes that are not committed"
    DELETED = "it was deleted here, and the deletion is not committed"
    UNTRACKED = "an untracked file is in the way"
    IGNORED = "an ignored file is in the way"
    UNCOMMITTED_BASE = (
        "the session began with changes of it that are not committed: commit these first"
    )
    FOLDER_IN_THE_WAY = "a folder that holds other files is in the way"
    FILE_IN_THE_WAY = "a file is where a folder has to be"
    THROUGH_LINK = "a folder on the way to it is a symbolic link"
    OTHER_REPOSITORY = "it is inside another repository"
    SUBMODULE = "it is a submodule"
    SPARSE = "it is outside the sparse checkout, or marked skip-worktree"
    SPECIAL_FILE = "it is no regular file, link or folder"
    TOO_LARGE = "it is too large to be kept for going back"
    CASE_CLASH = "another name differs from it in upper and lower case alone"
    UNSAFE_NAME = "its name could be taken for a part of the repository's own files"
    FILTER = "a filter program of your configuration is in charge of it"
    MERGE_DRIVER = "both sides changed it, and a merge program of its own is in charge of it"
    CHANGED_SINCE = "it is neither as it was nor as it should become"


@frozen
class BlockedPath:
    """A path that can't be written, and why.

    Attributes:
        path: The path in the checkout.
        obstacle: Why.
        detail: Further information, such as the name that clashes.
    """

    path: str
    obstacle: Obstacle
    detail: str = ""

    def __str__(self) -> str:
        also = f" ({printable(self.detail, 200)})" if self.detail else ""
        return f"{printable(self.path, 200)}: {self.obstacle.value}{also}"


class ApplyError(RepositoryError, kind=ErrorKind.REFUSED):
    """Base of what can go wrong while a result is applied."""

    path: Path
    """The checkout."""


class ApplyRefused(ApplyError):
    """Work in the checkout would be lost or mixed up; nothing was changed."""

    message = """{count} of {path} can't be written: {blocked:;}. Nothing was changed. Commit, move
    or discard what is in the way, leave paths out with --files, or take the result to a branch of
    its own by --branch."""
    blocked: Sequence[BlockedPath]
    """Each path that prevents the apply, and why."""

    @property
    def count(self) -> str:
        """The number of these paths, in words."""
        return counted(len(self.blocked), "path")


class ApplyConflict(ApplyError):
    """The result and the checkout's commit changed the same lines; nothing was changed."""

    message = """{path} and the result changed the same lines of {paths:;}. Nothing was changed.
    --merge writes both sides into the files between conflict markers, as git does; --branch NAME
    commits the result on a branch of its own; --files applies the rest."""
    conflicts: Sequence[str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as a terminal may show them."""
        return tuple(printable(one, 200) for one in self.conflicts)


class OperationUnderWay(ApplyError):
    """A git operation is in progress in the repository; nothing was changed."""

    message = """{path} is in the middle of a {operation}; nothing was changed. {finish}, then try
    again."""
    operation: str
    """The operation, such as "rebase"."""
    finish: str
    """The command that ends it."""


class CheckoutBusy(ApplyError, kind=ErrorKind.CONFLICT, retryable=True):
    """Another program is at work in the checkout; nothing was changed."""

    message = """another program is at work in {path}: {lock} is held; nothing was changed. Wait for
    it and try again; if no git runs there any more, remove that file."""
    lock: Path
    """The file or folder that it holds."""


class CheckoutChanged(ApplyError, kind=ErrorKind.CONFLICT, retryable=True):
    """The checkout changed while it was inspected; the apply changed nothing."""

    message = """{path} changed meanwhile ({paths:;}); what had been written was taken back. Try
    again."""
    changed: Sequence[str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as a terminal may show them."""
        return tuple(printable(one, 200) for one in self.changed)


class CheckoutUnsupported(ApplyError):
    """A checkout is of an unsupported kind; nothing was changed."""

    message = "{path}: {reason}; nothing was changed."
    reason: str


class UnfinishedApply(ApplyError):
    """An earlier apply was interrupted in this checkout; nothing more was changed."""

    message = """an apply of {what} to {path} was interrupted. Finish it with `agentforge apply
    --continue`, or undo it with `agentforge apply --abort`. Until then git's index.lock is held for
    it: don't remove that."""
    label: str

    @property
    def what(self) -> str:
        """What was being applied, as a terminal may show it."""
        return printable(self.label, 200)


class NoUnfinishedApply(ApplyError):
    """There is no interrupted apply to continue or abort; nothing was changed."""

    message = "no apply was interrupted in {path}; there is nothing to continue or abort."


class ApplyDiverged(ApplyError):
    """Files were changed after an apply was interrupted; it was neither finished nor undone."""

    message = """{path} was changed since the apply was interrupted: {blocked:;}. Nothing more was
    changed. The old and the new content of each path are in {journal}: save your own change
    elsewhere, copy one of the two to each of these paths (the index is {index}), then continue or
    abort again."""
    blocked: Sequence[BlockedPath]
    journal: Path

    @property
    def index(self) -> Path:
        """The index of the interrupted apply."""
        return self.journal.parent / "index"


class JournalDamaged(ApplyError, kind=ErrorKind.INVALID_FILE):
    """The record of an interrupted apply can't be read; nothing was changed."""

    message = """the record of an interrupted apply in {journal} can't be used: {reason}; nothing
    was changed. What it kept is there; when you took what you need, remove that folder and
    {lock}."""
    journal: Path
    reason: str

    @property
    def lock(self) -> Path:
        """The lock that the interrupted apply holds."""
        return self.journal.parent / "index.lock"


class NoIdentity(ApplyError):
    """A commit needs a name and an address, and git's configuration has none."""

    message = """no commit can be made in {path} without a name; nothing was changed. Set user.name
    and user.email with `git config`, or apply without a commit."""


class BranchRefused(ApplyError):
    """A branch can't be made; nothing was changed."""

    message = "the branch {branch!r} can't be made in {path}: {reason}; nothing was changed."
    branch: str
    reason: str


class CommitRefused(ApplyError, kind=ErrorKind.NOT_DONE):
    """The result was applied and staged; git, with the repository's hooks, made no commit of it."""

    message = """the result is applied to {path} and staged, but no commit was made: {said}. See
    what the hook wants, then commit with git."""
    output: str

    @property
    def said(self) -> str:
        """What git and the hooks printed, as a terminal may show it."""
        return printable(self.output)


class ApplyFailed(ApplyError, kind=ErrorKind.STORAGE):
    """The system refused a step."""

    message = "could not apply to {path}: {problem}; {kept}."
    cause: BaseException
    undone: bool
    """Whether the checkout is unchanged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.errno = self.cause.errno if isinstance(self.cause, OSError) else None

    @property
    def problem(self) -> str:
        """The system's error, and the file it concerns."""
        return str(self.cause)

    @property
    def kept(self) -> str:
        """The state of the checkout."""
        if self.undone:
            return "the checkout is as it was"
        return (
            "the old content was saved. Free the disk or fix its permissions, then `agentforge "
            "apply --continue` or `--abort`"
        )
