"""What can go wrong with a workflow and its runs, as typed errors with fields.

What a phase's code does is never among them: a phase that fails pauses its session.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..base.errors import ErrorKind, listed
from ..harness import BudgetExceeded, HarnessError

_SHOWN_FAULTS: Final = 12


class InvalidWorkflow(HarnessError):
    """A workflow can't be run as it is written; nothing was started.

    Attributes:
        path: Its file.
        faults: Everything that is wrong with it, in the order of the file, most with their line.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, *, path: Path, faults: Iterable[str], session_id: str | None = None) -> None:
        self.path = path
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__(
            f"{path} is not a usable workflow: {listed(self.faults, most=_SHOWN_FAULTS)}. "
            "Nothing was run; correct the file and try again.",
            session_id=session_id,
        )


class NotAWorkflowSession(HarnessError):
    """A session was not begun by a workflow, so there is nothing to go on with."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} was not begun by a workflow, so its phases are not known here. "
            "Nothing was changed; lead it with SessionManager, or start a workflow of its own.",
            session_id=session_id,
        )


class AlreadyRunning(HarnessError):
    """Another worker runs the session's phases at this moment."""

    kind = ErrorKind.CONFLICT

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is being run by another worker. Nothing was changed; wait "
            "until it is done, or end it, then resume.",
            session_id=session_id,
        )


class PhaseNotInWorkflow(HarnessError):
    """A session stands in a phase that its workflow does not have.

    Attributes:
        phase: The phase, or None if the session is in none.
        known: The workflow's phases, in order.
    """

    def __init__(self, session_id: str, *, phase: str | None, known: Iterable[str]) -> None:
        self.phase = phase
        self.known = tuple(known)
        where = f"in phase {phase!r}" if phase is not None else "in no phase"
        super().__init__(
            f"session {session_id} is {where}, and its workflow has only {', '.join(self.known)}. "
            "Nothing was run; advance the session to one of these, then resume.",
            session_id=session_id,
        )


class AttemptsExhausted(HarnessError):
    """A phase failed as often as its workflow allows.

    Attributes:
        phase: The phase.
        attempts: How many attempts there were.
        max_attempts: How many the workflow allows.
    """

    def __init__(self, session_id: str, *, phase: str, attempts: int, max_attempts: int) -> None:
        super().__init__(
            f"phase {phase!r} of session {session_id} failed at attempt {attempts}, and its "
            f"workflow allows {max_attempts}. The session stays paused with all it has; "
            f"`agentforge retry {session_id}` begins another attempt all the same.",
            session_id=session_id,
        )
        self.phase = phase
        self.attempts = attempts
        self.max_attempts = max_attempts


class BudgetTooSmall(BudgetExceeded):
    """What is left of a session's budget does not cover its next phase.

    Attributes:
        phase: The phase that would run next.
        required: What it costs, in tokens.
        remaining: What is left, in tokens; negative when more was spent than allotted.
        missing: By how much the budget has to be extended, in tokens; more than the difference
            where the phase has only a share of the budget.
    """

    kind = ErrorKind.BUDGET

    def __init__(
        self,
        session_id: str,
        *,
        phase: str,
        required: int,
        remaining: int,
        missing: int | None = None,
    ) -> None:
        super().__init__(session_id, required=required, remaining=remaining)
        self.phase = phase
        self.missing = required - remaining if missing is None else missing
        self.args = (
            f"phase {phase!r} of session {session_id} needs {required:,} tokens and "
            f"{remaining:,} are left. The session stays paused with all it has; "
            f"`agentforge budget {session_id} --extend {self.missing}` makes it enough, "
            "then resume.",
        )


class NoAgent(HarnessError):
    """A session names no agent that can be made here, and none was given."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} names no agent that can go on with it. Nothing was changed; "
            f"say who: `agentforge resume {session_id} --agent …`.",
            session_id=session_id,
        )


class TestsContested(HarnessError):
    """A phase says that no implementation can pass some tests; a person has to decide.

    Attributes:
        phase: The phase.
        tests: The tests that it contests.
    """

    kind = ErrorKind.PERSON_NEEDED
    __test__ = False

    def __init__(self, session_id: str, *, phase: str, tests: Iterable[str], back_to: str) -> None:
        self.phase = phase
        self.tests = tuple(tests)
        super().__init__(
            f"phase {phase!r} of session {session_id} contests {', '.join(self.tests)}, and "
            "nothing goes on before a person decides. Nothing was changed; "
            f"`agentforge retry {session_id} --from {back_to}` has the tests written again, "
            f"`agentforge retry {session_id}` keeps them.",
            session_id=session_id,
        )


class NoEarlierPhase(HarnessError):
    """A session can't go back to a phase that it has not reached, or that is none of its workflow.

    Attributes:
        phase: The phase that was asked for.
        known: The phases that it can go back to, in order.
    """

    kind = ErrorKind.USAGE

    def __init__(self, session_id: str, *, phase: str, known: Iterable[str]) -> None:
        self.phase = phase
        self.known = tuple(known)
        super().__init__(
            f"session {session_id} can't go back to {phase!r}: it has been in "
            f"{', '.join(self.known)}. Nothing was changed; name one of these.",
            session_id=session_id,
        )


class NothingToRetry(HarnessError):
    """A retry was asked for, and the session's current phase has not failed.

    Attributes:
        phase: The current phase.
    """

    def __init__(self, session_id: str, *, phase: str) -> None:
        super().__init__(
            f"phase {phase!r} of session {session_id} has not failed, so there is nothing to "
            f"retry. Nothing was changed; `agentforge resume {session_id}` goes on with it.",
            session_id=session_id,
        )
        self.phase = phase
