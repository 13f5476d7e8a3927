"""What can be in the way of bringing a result into a person's checkout, as typed errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from attrs import frozen

from ...base.errors import ErrorKind, listed
from ..errors import RepositoryError, printable

_SHOWN: Final = 20


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
        detail: What more there is to say, such as the name that clashes.
    """

    path: str
    obstacle: Obstacle
    detail: str = ""

    def __str__(self) -> str:
        also = f" ({printable(self.detail, 200)})" if self.detail else ""
        return f"{printable(self.path, 200)}: {self.obstacle.value}{also}"


def _listed(items: Iterable[object]) -> str:
    return listed([str(one) for one in items], most=_SHOWN, what="")


class ApplyError(RepositoryError):
    """Base of what can go wrong while a result is brought home.

    Attributes:
        path: The checkout.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class ApplyRefused(ApplyError):
    """Something of the checkout would be lost or mixed up; nothing was changed.

    Attributes:
        blocked: Each path that is in the way, and why.
    """

    def __init__(self, path: Path, blocked: Sequence[BlockedPath]) -> None:
        count = len(blocked)
        super().__init__(
            f"{count} path{'' if count == 1 else 's'} of {path} can't be written: "
            f"{_listed(blocked)}. Nothing was changed. Commit, move or discard what is in the way, "
            "leave paths out with --files, or take the result to a branch of its own by --branch.",
            path=path,
        )
        self.blocked = tuple(blocked)


class ApplyConflict(ApplyError):
    """The result and the checkout's commit changed the same lines; nothing was changed.

    Attributes:
        conflicts: The paths.
    """

    def __init__(self, path: Path, conflicts: Sequence[str]) -> None:
        super().__init__(
            f"{path} and the result changed the same lines of "
            f"{_listed(printable(one, 200) for one in conflicts)}. Nothing was changed. Apply the "
            "rest with --files, or export the result and merge by hand.",
            path=path,
        )
        self.conflicts = tuple(conflicts)


class OperationUnderWay(ApplyError):
    """The repository is in the middle of an operation of git; nothing was changed.

    Attributes:
        operation: Which, such as "rebase".
    """

    def __init__(self, path: Path, operation: str, finish: str) -> None:
        super().__init__(
            f"{path} is in the middle of a {operation}; nothing was changed. {finish}, then try "
            "again.",
            path=path,
        )
        self.operation = operation


class CheckoutBusy(ApplyError):
    """Another program is at work in the checkout; nothing was changed.

    Attributes:
        lock: The file or folder that it holds.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(self, path: Path, lock: Path) -> None:
        super().__init__(
            f"another program is at work in {path}: {lock} is held; nothing was changed. Wait for "
            "it and try again; if no git runs there any more, remove that file.",
            path=path,
        )
        self.lock = lock


class CheckoutChanged(ApplyError):
    """The checkout changed while it was looked at; nothing was changed by us.

    Attributes:
        changed: What changed.
    """

    kind = ErrorKind.CONFLICT
    retryable: ClassVar[bool] = True

    def __init__(self, path: Path, changed: Sequence[str]) -> None:
        super().__init__(
            f"{path} changed meanwhile ({_listed(printable(one, 200) for one in changed)}); what "
            "had been written was taken back. Try again.",
            path=path,
        )
        self.changed = tuple(changed)


class CheckoutUnsupported(ApplyError):
    """A checkout is of a kind that nothing is written to; nothing was changed.

    Attributes:
        reason: What is special about it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; nothing was changed.", path=path)
        self.reason = reason


class UnfinishedApply(ApplyError):
    """An earlier apply was interrupted in this checkout; nothing more was changed.

    Attributes:
        label: What was being applied.
    """

    def __init__(self, path: Path, label: str) -> None:
        super().__init__(
            f"an apply of {printable(label, 200)} to {path} was interrupted. Finish it with "
            "`agentforge apply --continue`, or undo it with `agentforge apply --abort`. Until then "
            "git's index.lock is held for it: don't remove that.",
            path=path,
        )
        self.label = label


class NoUnfinishedApply(ApplyError):
    """There is no interrupted apply to continue or abort; nothing was changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no apply was interrupted in {path}; there is nothing to continue or abort.", path=path
        )


class ApplyDiverged(ApplyError):
    """Files were changed after an apply was interrupted; it was neither finished nor undone.

    Attributes:
        blocked: Each such path.
    """

    def __init__(self, path: Path, blocked: Sequence[BlockedPath], *, journal: Path) -> None:
        super().__init__(
            f"{path} was changed since the apply was interrupted: {_listed(blocked)}. Nothing more "
            f"was changed. What stood and what should stand there is kept in {journal}: save your "
            "own change elsewhere, copy one of the two to each of these paths (the index is "
            f"{journal.parent / 'index'}), then continue or abort again.",
            path=path,
        )
        self.blocked = tuple(blocked)
        self.journal = journal


class JournalDamaged(ApplyError):
    """The record of an interrupted apply can't be read; nothing was changed.

    Attributes:
        journal: Where it is.
        reason: What is wrong with it.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, path: Path, journal: Path, reason: str) -> None:
        super().__init__(
            f"the record of an interrupted apply in {journal} can't be used: {reason}; nothing was "
            f"changed. What it kept is there; when you took what you need, remove that folder and "
            f"{journal.parent / 'index.lock'}.",
            path=path,
        )
        self.journal = journal
        self.reason = reason


class NoIdentity(ApplyError):
    """A commit needs a name and an address, and git's configuration has none."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no commit can be made in {path} without a name; nothing was changed. Set user.name "
            "and user.email with `git config`, or apply without a commit.",
            path=path,
        )


class BranchRefused(ApplyError):
    """A branch can't be made; nothing was changed.

    Attributes:
        branch: Its name.
        reason: Why.
    """

    def __init__(self, path: Path, branch: str, reason: str) -> None:
        super().__init__(
            f"the branch {printable(branch, 200)!r} can't be made in {path}: {reason}; nothing was "
            "changed.",
            path=path,
        )
        self.branch = branch
        self.reason = reason


class CommitRefused(ApplyError):
    """The result was applied and staged; git, with the repository's hooks, made no commit of it.

    Attributes:
        output: What git and the hooks said.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(self, path: Path, output: str) -> None:
        super().__init__(
            f"the result is applied to {path} and staged, but no commit was made: "
            f"{printable(output)}. See what the hook wants, then commit with git.",
            path=path,
        )
        self.output = output


class ApplyFailed(ApplyError):
    """The system refused a step.

    Attributes:
        undone: Whether the checkout is as it was.
        errno: The system's number of the error, or None.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, path: Path, cause: BaseException, *, undone: bool) -> None:
        kept = (
            "the checkout is as it was"
            if undone
            else "what stood there is kept. Free the disk or fix its permissions, then "
            "`agentforge apply --continue` or `--abort`"
        )
        super().__init__(f"could not apply to {path}: {cause}; {kept}.", path=path)
        self.undone = undone
        self.errno = cause.errno if isinstance(cause, OSError) else None
