"""What can go wrong with git and with a person's repository, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..base.errors import AgentForgeError, ErrorKind

_SHOWN_CHARS: Final = 400


def printable(output: bytes | str, limit: int = _SHOWN_CHARS) -> str:
    """Return git's output as one line that no terminal acts on; its end if it is long."""
    text = output.decode("utf-8", "backslashreplace") if isinstance(output, bytes) else output
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= limit else f"…{line[-limit:]}"


class RepositoryError(AgentForgeError, kind=ErrorKind.REFUSED):
    """Base of this package's errors."""


class GitUnavailable(RepositoryError, kind=ErrorKind.NOT_DONE):
    """There is no usable git; nothing was changed."""

    message = """{problem}; nothing was changed. Install git {required} or newer from your system's
    packages (apt-get install git, dnf install git, apk add git, brew install git) and see that its
    folder is in PATH."""
    problem: str
    required: str
    """The lowest supported version."""
    found: str | None = None
    """The path of a git that is too old or does not run."""
    version: str | None = None


class GitFailed(RepositoryError, kind=ErrorKind.STORAGE, kw_only=True):
    """Git did not do what it was asked to."""

    message = "git {command} on {git_dir} {ended}{said}"
    command: str
    """The git command, such as "write-tree"."""
    git_dir: Path
    exit_code: int | None
    """Its exit code; negative for a signal."""
    output: str = ""
    """Its standard error, as `printable` formats it."""
    problem: str | None = None
    """What happened, if git did not end by itself."""

    @property
    def ended(self) -> str:
        """How git ended."""
        return self.problem or f"ended with exit code {self.exit_code}"

    @property
    def said(self) -> str:
        """What git printed."""
        return f": {self.output}" if self.output else ""


class GitTimedOut(GitFailed, kind=ErrorKind.TIMEOUT, kw_only=True):
    """Git took too long and was ended, with all that it had started."""

    exit_code: int | None = None
    timeout_s: float

    @property
    def ended(self) -> str:
        """How git ended."""
        return f"took longer than {self.timeout_s:g} s and was ended"


class GitOutputTooLarge(GitFailed, kw_only=True):
    """Git printed more than the limit and was ended."""

    exit_code: int | None = None
    max_bytes: int

    @property
    def ended(self) -> str:
        """How git ended."""
        return f"printed more than {self.max_bytes:,} bytes and was ended"


class NotARepository(RepositoryError):
    """There is no git repository with a checkout at a path; nothing was changed."""

    message = """{path} is no checkout of a git repository: {reason}; nothing was changed. Name a
    folder of a checkout, or begin one there with `git init`."""
    path: Path
    reason: str


class UnknownRevision(RepositoryError, kind=ErrorKind.NOT_FOUND):
    """A repository has no commit of this name; nothing was changed."""

    revision: str
    git_dir: Path
    hint: Sequence[str] = ()
    """Possible remedies, as sentences."""

    def __str__(self) -> str:
        missing = f"there is no commit {printable(self.revision, 80)!r} in {self.git_dir}"
        return " ".join([f"{missing}; nothing was changed.", *self.hint])


class SnapshotRefused(RepositoryError, kind=ErrorKind.REFUSED):
    """A workspace holds something that no snapshot can store; nothing was stored."""

    message = """the workspace {workspace} can't be kept as a snapshot: {faults:;}. Nothing was
    stored. Remove or shrink what is named, then try again."""
    workspace: Path
    faults: Sequence[str]
    """The faults, the first twenty."""
