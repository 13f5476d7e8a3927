"""Exit codes of the command line, and the code for each kind of error."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ....base.errors import AgentForgeError, ErrorKind


class ExitCode(IntEnum):
    """Exit code of `agentforge`, with its meaning.

    Attributes:
        meaning: The meaning in words.
    """

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """Return the exit code of a number, with its meaning."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    OK = 0, "done"
    NOT_DONE = 1, "the work failed: a phase or a check failed, or a person declined"
    USAGE = 2, "the command line is wrong"
    NOT_FOUND = 3, "there is no such session, or nothing else of the name that was given"
    AMBIGUOUS = 4, "the shortened id fits several sessions"
    CONFLICT = 5, "another process changed the session, or is running it"
    REFUSED = 6, "the state of the session, workspace or checkout does not allow it"
    INVALID_FILE = 7, "a session or workflow file is invalid"
    STORAGE = 8, "a fault of the disk, of permissions or of a lock"
    SANDBOX = 9, "the sandbox can't run code"
    PERSON_NEEDED = 10, "the run waits for a person: to answer, to approve or to decide"
    BUDGET = 11, "the remaining budget does not cover the next step"
    UNEXPECTED = 70, "a fault in agentforge itself"
    TIMEOUT = 124, "code in the sandbox hit a limit or crashed, or no answer came in time"
    INTERRUPTED = 130, "interrupted with Ctrl-C"


class GuestExit(int):
    """Exit code of code in the sandbox, passed on regardless of its meaning as one of ours."""


_CODES: Final = {kind: ExitCode[kind.name] for kind in ErrorKind}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for `error`."""
    if isinstance(error, AgentForgeError):
        return _CODES[error.kind]
    return ExitCode.STORAGE if isinstance(error, OSError) else ExitCode.UNEXPECTED


def epilog() -> str:
    """Return the exit codes as text for the end of the help."""
    lines = [f"  {code.value:>3}  {code.meaning}" for code in ExitCode]
    return "\b\nExit codes:\n" + "\n".join(lines)
