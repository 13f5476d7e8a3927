"""What can go wrong with git and with a person's repository, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..base.errors import AgentForgeError, ErrorKind

_SHOWN_CHARS: Final = 400


def printable(output: bytes | str, limit: int = _SHOWN_CHARS) -> str:
    """Return what git printed as one line that no terminal acts on, the end of it if it is long."""
    text = output.decode("utf-8", "backslashreplace") if isinstance(output, bytes) else output
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= limit else f"…{line[-limit:]}"


class RepositoryError(AgentForgeError):
    """Base of this package's errors."""

    kind = ErrorKind.REFUSED


class GitUnavailable(RepositoryError):
    """There is no git that can be used; nothing was changed.

    Attributes:
        found: Where a git is that is too old or does not run, or None.
        version: Its version, as far as it says one.
        required: The least version that is supported.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(
        self, problem: str, *, required: str, found: str | None = None, version: str | None = None
    ) -> None:
        super().__init__(
            f"{problem}; nothing was changed. Install git {required} or newer from your system's "
            "packages (apt-get install git, dnf install git, apk add git, brew install git) and "
            "see that its folder is in PATH."
        )
        self.found = found
        self.version = version
        self.required = required


class GitFailed(RepositoryError):
    """Git did not do what it was asked to.

    Attributes:
        command: Which of git's commands, such as "write-tree".
        git_dir: The repository that it ran on.
        exit_code: How it ended; negative for a signal.
        output: What it printed on standard error, on one line, without control characters.
    """

    kind = ErrorKind.STORAGE

    def __init__(
        self,
        *,
        command: str,
        git_dir: Path,
        exit_code: int | None,
        output: bytes | str = b"",
        problem: str | None = None,
    ) -> None:
        self.command = command
        self.git_dir = git_dir
        self.exit_code = exit_code
        self.output = printable(output)
        ended = problem if problem is not None else f"ended with exit code {exit_code}"
        said = f": {self.output}" if self.output else ""
        super().__init__(f"git {command} on {git_dir} {ended}{said}")


class GitTimedOut(GitFailed):
    """Git took too long and was ended, with all that it had started.

    Attributes:
        timeout_s: How long it was given, in seconds.
    """

    kind = ErrorKind.TIMEOUT

    def __init__(
        self, *, command: str, git_dir: Path, timeout_s: float, output: bytes = b""
    ) -> None:
        super().__init__(
            command=command,
            git_dir=git_dir,
            exit_code=None,
            output=output,
            problem=f"took longer than {timeout_s:g} s and was ended",
        )
        self.timeout_s = timeout_s


class GitOutputTooLarge(GitFailed):
    """Git printed more than is taken from it and was ended.

    Attributes:
        max_bytes: The most that is taken.
    """

    def __init__(self, *, command: str, git_dir: Path, max_bytes: int) -> None:
        super().__init__(
            command=command,
            git_dir=git_dir,
            exit_code=None,
            problem=f"printed more than {max_bytes:,} bytes and was ended",
        )
        self.max_bytes = max_bytes


class NotARepository(RepositoryError):
    """There is no git repository with a checkout at a path; nothing was changed.

    Attributes:
        path: The path.
        reason: What is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is no checkout of a git repository: {reason}; nothing was changed. Name a "
            "folder of a checkout, or begin one there with `git init`."
        )
        self.path = path
        self.reason = reason


class UnknownRevision(RepositoryError):
    """A repository has no commit of a name; nothing was changed.

    Attributes:
        revision: What was looked for.
        git_dir: Where.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, revision: str, *, git_dir: Path, hint: Sequence[str] = ()) -> None:
        also = f" {' '.join(hint)}" if hint else ""
        super().__init__(
            f"there is no commit {printable(revision, 80)!r} in {git_dir}; nothing was "
            f"changed.{also}"
        )
        self.revision = revision
        self.git_dir = git_dir
