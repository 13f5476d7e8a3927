from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from agentforge_sessions.durable import LockTimeout, ReadError, RemovalError, WriteError
from agentforge_sessions.entrypoints.cli.exit_codes import ERRORS, MEANINGS, ExitCode, exit_code_of
from agentforge_sessions.harness import (
    AmbiguousSessionId,
    InvalidSession,
    InvalidSessionId,
    InvalidStateTransition,
    SessionConflict,
    SessionCorrupted,
    SessionNotFound,
    SessionState,
    SessionTooLarge,
    UnsupportedSchema,
)
from agentforge_sessions.sandbox import SandboxUnavailable, WorkspaceError
from agentforge_sessions.workflows import (
    AlreadyRunning,
    AttemptsExhausted,
    BudgetTooSmall,
    InvalidWorkflow,
    NotAWorkflowSession,
    NothingToRetry,
)

HERE = Path("x")


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_in_the_table_is_a_class_that_exists(name: str) -> None:
    module, _, kind = name.rpartition(".")
    found = getattr(importlib.import_module(module), kind)
    assert issubclass(found, Exception)
    assert f"{found.__module__}.{found.__qualname__}" == name


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidSession(["x"]), 2),
        (InvalidSessionId("x/"), 2),
        (SessionNotFound("x", path=HERE), 3),
        (AmbiguousSessionId("x", ["xa", "xb"]), 4),
        (SessionConflict("x", path=HERE, expected=1, actual=2), 5),
        (AlreadyRunning("x"), 5),
        (InvalidStateTransition(session_id="x", state=SessionState.ABORTED, operation="pause"), 6),
        (SessionTooLarge("x", path=HERE, size_bytes=2, max_bytes=1), 6),
        (AttemptsExhausted("x", phase="p", attempts=3, max_attempts=3), 6),
        (BudgetTooSmall("x", phase="p", required=2, remaining=1), 11),
        (NotAWorkflowSession("x"), 6),
        (NothingToRetry("x", phase="p"), 6),
        (SessionCorrupted(path=HERE, faults=["f"]), 7),
        (UnsupportedSchema(path=HERE, schema_version=9, newest=1), 7),
        (InvalidWorkflow(path=HERE, faults=["f"]), 7),
        (ReadError(path=HERE, reason="it is not a regular file"), 7),
        (ReadError(path=HERE, cause=OSError(40, "loop")), 7),
        (ReadError(path=HERE, cause=PermissionError(13, "no")), 8),
        (WriteError(path=HERE, operation="fsync"), 8),
        (LockTimeout(path=HERE, timeout_s=1), 8),
        (RemovalError(path=HERE, cause=OSError(1, "no")), 8),
        (OSError(28, "full"), 8),
        (SandboxUnavailable("r", "m"), 9),
        (WorkspaceError(HERE, "r", "m"), 9),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_each_error_leads_to_its_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
