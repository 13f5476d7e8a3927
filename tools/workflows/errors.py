"""Errors of workflows and their runs, with fields.

Failures of a phase's code are not among them: a phase that fails pauses its session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import ErrorKind
from ..harness import HarnessError
from ..harness.errors import BudgetExceeded


class InvalidWorkflow(HarnessError, kind=ErrorKind.INVALID_FILE):
    """A workflow can't be run as it is written; nothing was started."""

    message = """{path} is not a usable workflow: {faults:;}. Nothing was run; correct the file and
    try again."""
    path: Path
    faults: Sequence[str]
    """Every fault, in the order of the file, most with their line."""


class NotAWorkflowSession(HarnessError):
    """A session was not started by a workflow, so a runner can't continue it."""

    message = """session {session_id} was not begun by a workflow, so its phases are not known here.
    Nothing was changed; lead it with SessionManager, or start a workflow of its own."""
    session_id: str


class AlreadyRunning(HarnessError, kind=ErrorKind.CONFLICT):
    """Another worker is running the session's phases."""

    message = """session {session_id} is being run by another worker. Nothing was changed; wait
    until it is done, or end it, then resume."""
    session_id: str


class OtherProgram(HarnessError, kind=ErrorKind.CONFLICT):
    """A program's file has changed since an open session of it began; nothing was run."""

    message = """{path} has changed since session {session_id} began, which runs the former text.
    Nothing was run; `agentforge resume {session_id}` goes on with that, and --new begins a session
    with the new text."""
    session_id: str
    path: Path


class PhaseNotInWorkflow(HarnessError):
    """A session is in a phase that its workflow does not have."""

    message = """session {session_id} is {place}, and its workflow has only {known:,}. Nothing was
    run; advance the session to one of these, then resume."""
    session_id: str
    phase: str | None
    known: Sequence[str]
    """The workflow's phases, in order."""

    @property
    def place(self) -> str:
        """The phase that the session is in."""
        return f"in phase {self.phase!r}" if self.phase is not None else "in no phase"


class AttemptsExhausted(HarnessError):
    """A phase failed as often as its workflow allows."""

    message = """phase {phase!r} of session {session_id} failed at attempt {attempts}, and its
    workflow allows {max_attempts}. The session stays paused with all it has; `agentforge session
    retry {session_id}` begins another attempt all the same."""
    session_id: str
    phase: str
    attempts: int
    max_attempts: int


class BudgetTooSmall(BudgetExceeded, kind=ErrorKind.BUDGET):
    """The remaining budget does not cover the session's next phase."""

    message = """phase {phase!r} of session {session_id} needs {required:,} tokens and {remaining:,}
    are left. The session stays paused with all it has; `agentforge session budget {session_id}
    --extend {missing}` makes it enough, then resume."""
    phase: str
    missing: int = 0
    """How much the budget must be extended, in tokens; more than the difference if the phase
    may use only a share of the budget."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.missing = self.missing or self.required - self.remaining


class NoAgent(HarnessError):
    """A session names no agent that can be created here, and none was given."""

    message = """session {session_id} names no agent that can go on with it. Nothing was changed;
    say who: `agentforge resume {session_id} --agent …`."""
    session_id: str


class TestsContested(HarnessError, kind=ErrorKind.PERSON_NEEDED):
    """A phase says that no implementation can pass some tests; a person has to decide."""

    __test__ = False
    message = """phase {phase!r} of session {session_id} contests {tests:,}, and nothing goes on
    before a person decides. Nothing was changed; `agentforge session retry {session_id} --from
    {back_to}` has the tests written again, `agentforge session retry {session_id}` keeps them."""
    session_id: str
    phase: str
    tests: Sequence[str]
    back_to: str


class NoEarlierPhase(HarnessError, kind=ErrorKind.USAGE):
    """A session can't go back to a phase that it has not reached or that its workflow lacks."""

    message = """session {session_id} can't go back to {phase!r}: it has been in {known:,}. Nothing
    was changed; name one of these."""
    session_id: str
    phase: str
    known: Sequence[str]
    """The phases it can go back to, in order."""


class NothingToRetry(HarnessError):
    """A retry was requested, but the session's current phase has not failed."""

    message = """phase {phase!r} of session {session_id} has not failed, so there is nothing to
    retry. Nothing was changed; `agentforge resume {session_id}` goes on with it."""
    session_id: str
    phase: str
