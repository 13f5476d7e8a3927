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
        "agentforge_sessions.entrypoints.cli.errors.Declined": ExitCode.NOT_DONE,
        "agentforge_sessions.entrypoints.cli.errors.ConfirmationNeeded": ExitCode.USAGE,
        "agentforge_sessions.entrypoints.cli.errors.OutputLost": ExitCode.STORAGE,
        "agentforge_sessions.entrypoints.cli.errors.Interrupted": ExitCode.INTERRUPTED,
        "agentforge_sessions.entrypoints.cli.errors.SandboxSessionNotFound": ExitCode.NOT_FOUND,
        "agentforge_sessions.entrypoints.cli.errors.AmbiguousSandboxSession": ExitCode.AMBIGUOUS,
        "agentforge_sessions.entrypoints.cli.errors.WorkspaceFileMissing": ExitCode.NOT_FOUND,
        "agentforge_sessions.entrypoints.cli.errors.WorkspaceFileRefused": ExitCode.REFUSED,
        "agentforge_sessions.harness.session_checks.InvalidSession": ExitCode.USAGE,
        "agentforge_sessions.harness.session_states.InvalidStateTransition": ExitCode.REFUSED,
        "agentforge_sessions.harness.disk_errors.WriteError": ExitCode.STORAGE,
        "agentforge_sessions.harness.disk_errors.RemovalError": ExitCode.STORAGE,
        "agentforge_sessions.harness.errors.SessionNotFound": ExitCode.NOT_FOUND,
        "agentforge_sessions.harness.errors.NoActiveSession": ExitCode.NOT_FOUND,
        "agentforge_sessions.harness.errors.AmbiguousSessionId": ExitCode.AMBIGUOUS,
        "agentforge_sessions.harness.errors.SessionConflict": ExitCode.CONFLICT,
        "agentforge_sessions.harness.errors.SessionAlreadyActive": ExitCode.CONFLICT,
        "agentforge_sessions.harness.errors.SessionInUse": ExitCode.CONFLICT,
        "agentforge_sessions.harness.errors.SessionTooLarge": ExitCode.REFUSED,
        "agentforge_sessions.harness.errors.SessionCorrupted": ExitCode.INVALID_FILE,
        "agentforge_sessions.harness.errors.HarnessError": ExitCode.REFUSED,
        "agentforge_sessions.workflows.errors.InvalidWorkflow": ExitCode.INVALID_FILE,
        "agentforge_sessions.workflows.specification.InvalidSpecification": ExitCode.INVALID_FILE,
        "agentforge_sessions.workflows.specification.UnknownComponent": ExitCode.USAGE,
        "agentforge_sessions.workflows.gate_port.GateUnavailable": ExitCode.SANDBOX,
        "agentforge_sessions.workflows.errors.AlreadyRunning": ExitCode.CONFLICT,
        "agentforge_sessions.workflows.errors.NotAWorkflowSession": ExitCode.REFUSED,
        "agentforge_sessions.workflows.errors.PhaseNotInWorkflow": ExitCode.REFUSED,
        "agentforge_sessions.workflows.errors.AttemptsExhausted": ExitCode.REFUSED,
        "agentforge_sessions.workflows.errors.BudgetTooSmall": ExitCode.BUDGET,
        "agentforge_sessions.workflows.errors.NothingToRetry": ExitCode.REFUSED,
        "agentforge_sessions.workflows.errors.NoEarlierPhase": ExitCode.USAGE,
        "agentforge_sessions.workflows.errors.TestsContested": ExitCode.PERSON,
        "agentforge_sessions.workflows.errors.NoAgent": ExitCode.REFUSED,
        "agentforge_sessions.durable.errors.DurableError": ExitCode.STORAGE,
        "agentforge_sessions.entrypoints.mcp_server.errors.McpUnavailable": ExitCode.NOT_DONE,
        "agentforge_sessions.entrypoints.mcp_server.errors.NotLoopback": ExitCode.USAGE,
        "agentforge_sessions.entrypoints.mcp_server.errors.AddressUnavailable": ExitCode.CONFLICT,
        "agentforge_sessions.entrypoints.mcp_server.errors.TokenRefused": ExitCode.USAGE,
        "agentforge_sessions.entrypoints.mcp_server.errors.TokenRequired": ExitCode.USAGE,
        "agentforge_sessions.sandbox.errors.SandboxError": ExitCode.SANDBOX,
        "agentforge_sessions.sandbox.errors.InvalidPolicy": ExitCode.USAGE,
        "agentforge_sessions.sandbox.errors.InvalidExecution": ExitCode.USAGE,
        "agentforge_sessions.sandbox.errors.WorkspaceBusy": ExitCode.CONFLICT,
        "agentforge_sessions.sandbox.session_files.InvalidSessionId": ExitCode.USAGE,
        "agentforge_sessions.sandbox.session_files.PathEscapesWorkspace": ExitCode.USAGE,
        "agentforge_sessions.sandbox.session_files.ReservedSessionPath": ExitCode.USAGE,
        "agentforge_sessions.prune.errors.InvalidPolicy": ExitCode.USAGE,
        "agentforge_sessions.prune.errors.PruneRootMissing": ExitCode.NOT_FOUND,
        "agentforge_sessions.prune.errors.PruneRootUnusable": ExitCode.STORAGE,
        "agentforge_sessions.prune.errors.PruneBusy": ExitCode.CONFLICT,
        "agentforge_sessions.prune.errors.ArchiveUnavailable": ExitCode.USAGE,
        "agentforge_sessions.prune.errors.InvalidArchive": ExitCode.INVALID_FILE,
        "agentforge_sessions.prune.errors.NotInTrash": ExitCode.NOT_FOUND,
        "agentforge_sessions.prune.errors.SessionInTheWay": ExitCode.CONFLICT,
        "agentforge_sessions.entrypoints.cli.errors.AmbiguousTrash": ExitCode.AMBIGUOUS,
        "agentforge_sessions.entrypoints.cli.errors.NoSessionToPin": ExitCode.NOT_FOUND,
        "agentforge_sessions.questions.errors.InvalidQuestions": ExitCode.USAGE,
        "agentforge_sessions.questions.errors.InvalidAnswers": ExitCode.USAGE,
        "agentforge_sessions.questions.errors.InvalidSessionId": ExitCode.USAGE,
        "agentforge_sessions.questions.errors.SessionNotFound": ExitCode.NOT_FOUND,
        "agentforge_sessions.questions.errors.AmbiguousSessionId": ExitCode.AMBIGUOUS,
        "agentforge_sessions.questions.errors.SessionBusy": ExitCode.CONFLICT,
        "agentforge_sessions.questions.errors.SessionRejected": ExitCode.NOT_DONE,
        "agentforge_sessions.questions.errors.SessionCorrupted": ExitCode.INVALID_FILE,
        "agentforge_sessions.questions.errors.InvalidConfig": ExitCode.INVALID_FILE,
        "agentforge_sessions.questions.errors.AnswersTimeout": ExitCode.LIMIT,
        "agentforge_sessions.questions.errors.AtomicWriteError": ExitCode.STORAGE,
        "agentforge_sessions.questions.errors.AtomicReadError": ExitCode.STORAGE,
        "agentforge_sessions.questions.errors.QuestionError": ExitCode.REFUSED,
        "agentforge_sessions.entrypoints.terminal.errors.ExtraMissing": ExitCode.USAGE,
        "agentforge_sessions.entrypoints.terminal.errors.NoTerminal": ExitCode.USAGE,
        "agentforge_sessions.entrypoints.terminal.errors.AddressRefused": ExitCode.USAGE,
        "builtins.OSError": ExitCode.STORAGE,
    }
)
"""Error classes and the exit codes they lead to; a subclass goes the way of its nearest base."""


_READ_ERRORS: Final = frozenset(
    {
        "agentforge_sessions.durable.errors.ReadError",
        "agentforge_sessions.harness.disk_errors.SessionUnreadable",
        "agentforge_sessions.harness.disk_errors.ReadError",
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
