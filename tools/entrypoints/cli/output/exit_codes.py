"""How the command line ends: the exit codes, and which kind of error leads to which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from ....base.errors import AgentForgeError, ErrorKind


class ExitCode(IntEnum):
    """What the exit code of `agentforge` means."""

    OK = 0
    NOT_DONE = 1
    USAGE = 2
    NOT_FOUND = 3
    AMBIGUOUS = 4
    CONFLICT = 5
    REFUSED = 6
    INVALID_FILE = 7
    STORAGE = 8
    SANDBOX = 9
    PERSON = 10
    BUDGET = 11
    UNEXPECTED = 70
    LIMIT = 124
    INTERRUPTED = 130


class GuestExit(int):
    """The exit code of code in the sandbox, passed on whatever it would mean as one of ours."""


MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "done",
        ExitCode.NOT_DONE: "the work failed: a phase or a check failed, or a person declined",
        ExitCode.USAGE: "the command line is wrong",
        ExitCode.NOT_FOUND: "there is no such session, or nothing else of the name that was given",
        ExitCode.AMBIGUOUS: "the shortened id fits several sessions",
        ExitCode.CONFLICT: "another process changed the session, or is running it",
        ExitCode.REFUSED: "the state of the session, workspace or checkout does not allow it",
        ExitCode.INVALID_FILE: "a session or workflow file is invalid",
        ExitCode.STORAGE: "a fault of the disk, of permissions or of a lock",
        ExitCode.SANDBOX: "the sandbox can't run code",
        ExitCode.PERSON: "the run waits for a person: to answer, to approve or to decide",
        ExitCode.BUDGET: "the remaining budget does not cover the next step",
        ExitCode.UNEXPECTED: "a fault in agentforge itself",
        ExitCode.LIMIT: "code in the sandbox hit a limit or crashed, or no answer came in time",
        ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    }
)

_CODES: Final[Mapping[ErrorKind, ExitCode]] = MappingProxyType(
    {
        ErrorKind.NOT_DONE: ExitCode.NOT_DONE,
        ErrorKind.USAGE: ExitCode.USAGE,
        ErrorKind.NOT_FOUND: ExitCode.NOT_FOUND,
        ErrorKind.AMBIGUOUS: ExitCode.AMBIGUOUS,
        ErrorKind.CONFLICT: ExitCode.CONFLICT,
        ErrorKind.REFUSED: ExitCode.REFUSED,
        ErrorKind.INVALID_FILE: ExitCode.INVALID_FILE,
        ErrorKind.STORAGE: ExitCode.STORAGE,
        ErrorKind.SANDBOX: ExitCode.SANDBOX,
        ErrorKind.PERSON_NEEDED: ExitCode.PERSON,
        ErrorKind.BUDGET: ExitCode.BUDGET,
        ErrorKind.TIMEOUT: ExitCode.LIMIT,
        ErrorKind.INTERRUPTED: ExitCode.INTERRUPTED,
        ErrorKind.UNEXPECTED: ExitCode.UNEXPECTED,
    }
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that `error` leads to."""
    if isinstance(error, AgentForgeError):
        return _CODES[error.kind]
    return ExitCode.STORAGE if isinstance(error, OSError) else ExitCode.UNEXPECTED


def epilog() -> str:
    """Write the exit codes for the end of the help text."""
    lines = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\b\nExit codes:\n" + "\n".join(lines)
