"""How the command line ends: one table from what went wrong to the exit code.

The table names error classes instead of importing them, so that a command which runs no code never
loads the packages that can.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


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
        ExitCode.NOT_DONE: "the work did not end well: a phase or check failed, or a no was said",
        ExitCode.USAGE: "the command line is wrong",
        ExitCode.NOT_FOUND: "there is no such session",
        ExitCode.AMBIGUOUS: "the shortened id fits several sessions",
        ExitCode.CONFLICT: "somebody else changed the session, or is running it",
        ExitCode.REFUSED: "the session's state, attempts or workspace do not allow it",
        ExitCode.INVALID_FILE: "a session or workflow file is not what it should be",
        ExitCode.STORAGE: "the disk, its permissions or a lock",
        ExitCode.SANDBOX: "the sandbox can't run code",
        ExitCode.PERSON: "the run waits for a person: to answer, to approve or to decide",
        ExitCode.BUDGET: "what is left of the budget does not cover the next step",
        ExitCode.UNEXPECTED: "a fault in agentforge itself",
        ExitCode.LIMIT: "a limit ended code in the sandbox, it crashed, or nobody answered in time",
        ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    }
)

ERRORS: Final[Mapping[str, ExitCode]] = MappingProxyType(
    {
        "tools.cli.errors.Declined": ExitCode.NOT_DONE,
        "tools.cli.errors.ConfirmationNeeded": ExitCode.USAGE,
        "tools.cli.errors.OutputLost": ExitCode.STORAGE,
        "tools.cli.errors.Interrupted": ExitCode.INTERRUPTED,
        "tools.cli.errors.SandboxSessionNotFound": ExitCode.NOT_FOUND,
        "tools.cli.errors.AmbiguousSandboxSession": ExitCode.AMBIGUOUS,
        "tools.cli.errors.WorkspaceFileMissing": ExitCode.NOT_FOUND,
        "tools.cli.errors.WorkspaceFileRefused": ExitCode.REFUSED,
        "tools.harness.session_checks.InvalidSession": ExitCode.USAGE,
        "tools.harness.session_states.InvalidStateTransition": ExitCode.REFUSED,
        "tools.harness.disk_errors.WriteError": ExitCode.STORAGE,
        "tools.harness.disk_errors.RemovalError": ExitCode.STORAGE,
        "tools.harness.errors.SessionNotFound": ExitCode.NOT_FOUND,
        "tools.harness.errors.NoActiveSession": ExitCode.NOT_FOUND,
        "tools.harness.errors.AmbiguousSessionId": ExitCode.AMBIGUOUS,
        "tools.harness.errors.SessionConflict": ExitCode.CONFLICT,
        "tools.harness.errors.SessionAlreadyActive": ExitCode.CONFLICT,
        "tools.harness.errors.SessionInUse": ExitCode.CONFLICT,
        "tools.harness.errors.SessionTooLarge": ExitCode.REFUSED,
        "tools.harness.errors.SessionCorrupted": ExitCode.INVALID_FILE,
        "tools.harness.errors.HarnessError": ExitCode.REFUSED,
        "tools.workflows.errors.InvalidWorkflow": ExitCode.INVALID_FILE,
        "tools.workflows.specification.InvalidSpecification": ExitCode.INVALID_FILE,
        "tools.workflows.specification.UnknownComponent": ExitCode.USAGE,
        "tools.workflows.gate_port.GateUnavailable": ExitCode.SANDBOX,
        "tools.workflows.errors.AlreadyRunning": ExitCode.CONFLICT,
        "tools.workflows.errors.NotAWorkflowSession": ExitCode.REFUSED,
        "tools.workflows.errors.PhaseNotInWorkflow": ExitCode.REFUSED,
        "tools.workflows.errors.AttemptsExhausted": ExitCode.REFUSED,
        "tools.workflows.errors.BudgetTooSmall": ExitCode.BUDGET,
        "tools.workflows.errors.NothingToRetry": ExitCode.REFUSED,
        "tools.workflows.errors.NoEarlierPhase": ExitCode.USAGE,
        "tools.workflows.errors.TestsContested": ExitCode.PERSON,
        "tools.workflows.errors.NoAgent": ExitCode.REFUSED,
        "tools.durable.errors.DurableError": ExitCode.STORAGE,
        "tools.mcp_server.errors.McpUnavailable": ExitCode.NOT_DONE,
        "tools.mcp_server.errors.NotLoopback": ExitCode.USAGE,
        "tools.mcp_server.errors.AddressUnavailable": ExitCode.CONFLICT,
        "tools.mcp_server.errors.TokenRefused": ExitCode.USAGE,
        "tools.mcp_server.errors.TokenRequired": ExitCode.USAGE,
        "tools.sandbox.errors.SandboxError": ExitCode.SANDBOX,
        "tools.sandbox.errors.InvalidPolicy": ExitCode.USAGE,
        "tools.sandbox.errors.InvalidExecution": ExitCode.USAGE,
        "tools.sandbox.errors.WorkspaceBusy": ExitCode.CONFLICT,
        "tools.sandbox.session_files.InvalidSessionId": ExitCode.USAGE,
        "tools.sandbox.session_files.PathEscapesWorkspace": ExitCode.USAGE,
        "tools.sandbox.session_files.ReservedSessionPath": ExitCode.USAGE,
        "tools.prune.errors.InvalidPolicy": ExitCode.USAGE,
        "tools.prune.errors.PruneRootMissing": ExitCode.NOT_FOUND,
        "tools.prune.errors.PruneRootUnusable": ExitCode.STORAGE,
        "tools.prune.errors.PruneBusy": ExitCode.CONFLICT,
        "tools.prune.errors.ArchiveUnavailable": ExitCode.USAGE,
        "tools.prune.errors.InvalidArchive": ExitCode.INVALID_FILE,
        "tools.prune.errors.NotInTrash": ExitCode.NOT_FOUND,
        "tools.prune.errors.SessionInTheWay": ExitCode.CONFLICT,
        "tools.cli.errors.AmbiguousTrash": ExitCode.AMBIGUOUS,
        "tools.cli.errors.NoSessionToPin": ExitCode.NOT_FOUND,
        "tools.questions.errors.InvalidQuestions": ExitCode.USAGE,
        "tools.questions.errors.InvalidAnswers": ExitCode.USAGE,
        "tools.questions.errors.InvalidSessionId": ExitCode.USAGE,
        "tools.questions.errors.SessionNotFound": ExitCode.NOT_FOUND,
        "tools.questions.errors.AmbiguousSessionId": ExitCode.AMBIGUOUS,
        "tools.questions.errors.SessionBusy": ExitCode.CONFLICT,
        "tools.questions.errors.SessionRejected": ExitCode.NOT_DONE,
        "tools.questions.errors.SessionCorrupted": ExitCode.INVALID_FILE,
        "tools.questions.errors.InvalidConfig": ExitCode.INVALID_FILE,
        "tools.questions.errors.AnswersTimeout": ExitCode.LIMIT,
        "tools.questions.errors.AtomicWriteError": ExitCode.STORAGE,
        "tools.questions.errors.AtomicReadError": ExitCode.STORAGE,
        "tools.questions.errors.QuestionError": ExitCode.REFUSED,
        "tools.terminal.errors.ExtraMissing": ExitCode.USAGE,
        "tools.terminal.errors.NoTerminal": ExitCode.USAGE,
        "tools.terminal.errors.AddressRefused": ExitCode.USAGE,
        "builtins.OSError": ExitCode.STORAGE,
    }
)
"""Error classes and the exit codes they lead to; a subclass goes the way of its nearest base."""


_READ_ERRORS: Final = frozenset(
    {
        "tools.durable.errors.ReadError",
        "tools.harness.disk_errors.SessionUnreadable",
        "tools.harness.disk_errors.ReadError",
    }
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that `error` leads to."""
    for kind in type(error).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in _READ_ERRORS:
            return _of_read_error(error)
        code = ERRORS.get(name)
        if code is not None:
            return code
    return ExitCode.UNEXPECTED


def _of_read_error(error: BaseException) -> ExitCode:
    """Tell a file that is refused for what it is from one that the system would not read."""
    cause = getattr(error, "cause", None)
    refused = cause is None or getattr(cause, "errno", None) == errno.ELOOP
    return ExitCode.INVALID_FILE if refused else ExitCode.STORAGE


def epilog() -> str:
    """Write the exit codes for the end of the help text."""
    lines = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\b\nExit codes:\n" + "\n".join(lines)
