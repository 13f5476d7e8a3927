"""Errors about the steps of a program, typed and with fields."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ErrorKind
from ..errors import HarnessError


class InvalidStepName(HarnessError, ValueError):
    """A text can't be the name of a step."""

    message = "{name!r} can't name a step: {reason} possible. Nothing was run."
    name: str
    reason: str


class StepsUnreadable(HarnessError, kind=ErrorKind.INVALID_FILE):
    """The log of a session's steps has an entry that is not in this program's format."""

    message = """the log of the steps of session {session_id} can't be read: {reason}. It was left
    as it is, and nothing was run; a newer version may have written it."""
    session_id: str
    reason: str


class ProgramChanged(HarnessError, kind=ErrorKind.CONFLICT):
    """A program calls its steps in another order than the one that is recorded."""

    message = """the program calls {called!r} as number {index} of {place}, and session {session_id}
    has {recorded!r} there. Recorded: {before:,}. Called: {now:,}. Nothing was run; bring the order
    back, mark the change with s.version(...), or take another key."""
    session_id: str
    scope: str
    """The path of the step that both are in; empty for the program itself."""
    index: int
    """The number of the call in that scope, from 0."""
    called: str
    recorded: str
    before: Sequence[str]
    """The names around it as they are recorded, in order."""
    now: Sequence[str]
    """The same as they were called."""

    @property
    def place(self) -> str:
        """The scope, in words."""
        return f"the step {self.scope!r}" if self.scope else "the program"


class KeyTaken(HarnessError, kind=ErrorKind.CONFLICT):
    """The key of a session is in use by another workflow."""

    message = """the key {key!r} belongs to session {session_id} of the workflow {owner!r}, so
    {workflow!r} can't use it. Nothing was run or changed; use another key, as
    "{workflow}/{key}"."""
    session_id: str
    key: str
    workflow: str
    owner: str
    """The workflow that has the key."""


class ArgumentsDiffer(HarnessError, kind=ErrorKind.CONFLICT):
    """A key is used again with other arguments."""

    message = """session {session_id} of the key {key!r} was started with other arguments. Nothing
    was run or changed; give the same arguments, or another key for these."""
    session_id: str
    key: str


class SessionLed(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """Another process leads the session."""

    message = """another process leads session {session_id}, and did not end within {waited_s:g} s.
    Nothing was run here; wait for it (wait_s=...), or end it."""
    session_id: str
    waited_s: float


class LeadLost(HarnessError, kind=ErrorKind.CONFLICT):
    """Another process leads the session by now; this one can't record anything more."""

    message = """another process took over session {session_id}. What this one did since was not
    recorded, and the other does it again; end this process."""
    session_id: str


class BudgetReached(HarnessError, kind=ErrorKind.BUDGET):
    """A call was not made because the budget does not cover what it reserves."""

    message = """{holder!r} reserves {required}, and {left} is left of the budget of {place}. It was
    not called, and nothing was charged. `agentforge session budget {session_id} --extend N` allots
    more; what is recorded stays."""
    session_id: str
    holder: str
    """The path of the step."""
    required: str
    left: str
    scope: str = ""
    """The step whose own budget it is; empty for the session's."""

    @property
    def place(self) -> str:
        """Whose budget it is, in words."""
        return f"the step {self.scope!r}" if self.scope else f"session {self.session_id}"


class ResultNotKept(HarnessError, TypeError):
    """The result of a step can't be recorded."""

    message = """the result of the step {step!r} can't be recorded: {reason}. {ran} Return JSON
    values, bytes, paths, attrs or dataclass instances or pydantic models, and annotate the
    function's result or give returns=."""
    step: str
    reason: str
    has_run: bool = False
    """Whether the function has run; if so, it is not run again."""

    @property
    def ran(self) -> str:
        """Whether the function has run, in words."""
        if self.has_run:
            return "The function has run; that is recorded, and it is not run again."
        return "The function was not run."


class ResultUnreadable(HarnessError, kind=ErrorKind.INVALID_FILE):
    """The recorded result of a step is not a value of the annotation."""

    message = """what is recorded as the result of the step {step!r} can't be read: {reason}.
    Nothing was run or changed; give the function's result the type that it had, or rewind the
    session to before the step."""
    step: str
    reason: str


class StepFailed(HarnessError):
    """A step ended with an exception that is final: it is recorded, and the step is not run again.

    The original exception is its `__cause__` in the run in which it was raised.
    """

    message = """the step {path!r} of session {session_id} failed for good: {error_type}: {reason}.
    It is recorded and not run again; `agentforge session rewind` goes back before it."""
    session_id: str
    path: str
    error_type: str
    """The qualified name of the exception's class."""
    reason: str
    """Its text."""


class StepTimeout(HarnessError, TimeoutError, kind=ErrorKind.TIMEOUT, retryable=True):
    """A step did not end in time."""

    message = """the step {path!r} of session {session_id} did not end within {timeout_s:g} s.
    Nothing of it was recorded but what it spent; it runs again at the next start."""
    session_id: str
    path: str
    timeout_s: float


class NestedStep(HarnessError):
    """A step was called inside of a step of the same name."""

    message = """the step {name!r} was called inside of {path!r}, a step of the same name. Nothing
    was run; give it another name."""
    name: str
    path: str
    """The path of the outer one."""


class SessionFinished(HarnessError, kind=ErrorKind.CONFLICT):
    """A finished session was asked for a step that is not recorded."""

    message = """session {session_id} has finished, and has no record of {path!r}. Nothing was run;
    its result is s.result. Take another key to run the program again."""
    session_id: str
    path: str


class StillWaiting(HarnessError, kind=ErrorKind.PERSON_NEEDED, retryable=True):
    """What a program waits for has not come within its patience; the session is as it was."""

    message = """session {session_id} still waits for {awaited}. Nothing is lost: start the program
    again, here or elsewhere, when it has come."""
    session_id: str
    awaited: str
    """The signal, the question or the moment."""
