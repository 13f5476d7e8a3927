"""The ports of the harness: what it needs from outside, in its own terms.

`bootstrap` supplies the adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from attrs import field, frozen

from ..base.question import Question
from .domain.history_events import PhaseRequest, QuestionEnded

TokenCounter = Callable[[str], int]
"""Returns how many tokens a model counts in a text."""


def _as_tuple(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(paths)


@frozen(kw_only=True)
class SuspendedProgram:
    """Where the code of a phase waits, and what for.

    Attributes:
        program: The state of the program, for `ResumingExecutor.resume`.
        requests: What it waits for; untrusted, as the code chose it.
        wake_at: When it wants to go on without an answer, or None.
        where: The lines that wait ("deploy.py:12 in main"), the innermost last.
    """

    program: bytes = field(repr=False)
    requests: tuple[PhaseRequest, ...] = ()
    wake_at: datetime | None = None
    where: tuple[str, ...] = field(default=(), converter=_as_tuple)


@frozen
class Unanswered:
    """The answer to a request that has none: the code gets it as an error.

    Attributes:
        reason: Why.
    """

    reason: str


@frozen(kw_only=True)
class PhaseResult:
    """The result of one execution of phase work.

    Attributes:
        success: Whether the code ran to its end with exit code 0.
        exit_code: The guest's exit code; None if a limit ended it first.
        trapped: The limit that ended it ("deadline", "fuel", "memory", "cancelled", …) or None.
        stdout: Its standard output, decoded.
        stderr: Its standard error, decoded.
        truncated: Whether output exceeded the executor's limit.
        duration_s: Wall-clock time of the execution, in seconds.
        fuel_consumed: WebAssembly fuel used, if the executor knows it.
        files_created: Workspace-relative paths that did not exist before.
        files_modified: Workspace-relative paths whose file was written to.
        files_deleted: Workspace-relative paths that no longer exist.
        workspace: The host directory that the code saw, or None.
        quota_exceeded: Names of the workspace quotas that the code ran into.
        lost_writes: Files that differ from what the code wrote, each with the reason. If there are
            any, the result is not a success, whatever the exit code.
        suspended: Where the code waits, if it has not ended; only of a `ResumingExecutor`.
    """

    success: bool
    exit_code: int | None = None
    trapped: str | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    duration_s: float = 0.0
    fuel_consumed: int | None = None
    files_created: tuple[str, ...] = field(default=(), converter=_as_tuple)
    files_modified: tuple[str, ...] = field(default=(), converter=_as_tuple)
    files_deleted: tuple[str, ...] = field(default=(), converter=_as_tuple)
    workspace: Path | None = None
    quota_exceeded: tuple[str, ...] = field(default=(), converter=_as_tuple)
    lost_writes: tuple[str, ...] = field(default=(), converter=_as_tuple)
    suspended: SuspendedProgram | None = None

    @property
    def problem(self) -> str | None:
        """Why the result is not a success; None if it is one."""
        if self.success:
            return None
        problems = self.limit_problems()
        if self.trapped is None:
            problems.insert(0, f"exit code {self.exit_code}")
        return ", ".join(problems)

    def limit_problems(self) -> list[str]:
        """Return the limits that interfered, for the record of an unsuccessful result."""
        problems = []
        if self.trapped is not None:
            problems.append(
                _TRAPS_IN_WORDS.get(self.trapped, f"stopped by the limit on {self.trapped}")
            )
        if self.quota_exceeded:
            problems.append(f"quota exceeded: {', '.join(self.quota_exceeded)}")
        if self.lost_writes:
            problems.append(f"not kept: {_first(self.lost_writes)}")
        return problems


def _first(names: tuple[str, ...], most: int = 5) -> str:
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


_TRAPS_IN_WORDS: Final[Mapping[str, str]] = {
    "cancelled": "cancelled before its end",
    "crash": "its interpreter crashed",
    "files": "stopped by the limit on file calls",
}


@runtime_checkable
class PhaseExecutor(Protocol):
    """Runs the untrusted code of a phase.

    Every implementation guarantees: what the code does never raises here (it is in the result); the
    call returns within `deadline_s` plus a short grace; the code sees no file but those of the
    session's workspace; if the thread's operation is cancelled (`cancellation`), the code is ended
    soon and the result says "cancelled", or `OperationCancelled` is raised.
    """

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        """Run `code` in the workspace of `session_id` and return its result.

        Args:
            code: Python source.
            session_id: Whose workspace the code sees.
            deadline_s: Wall-clock limit in seconds; None takes the executor's default.
            fuel: Limit in units of fuel; None takes the executor's default.
            files: Files to put into the workspace first, by their path from its top; links are not
                followed.
        """
        ...


@runtime_checkable
class ResumingExecutor(PhaseExecutor, Protocol):
    """Runs code that may wait: its result is then `suspended`, and any process resumes it.

    Every implementation guarantees, beside what each executor does: a program resumed with its
    answers goes on as if it had never stopped, as often as it is resumed, in the workspace as it
    was.
    """

    def resume(
        self,
        program: bytes,
        answers: Mapping[int, object],
        *,
        session_id: str,
        deadline_s: float | None = None,
    ) -> PhaseResult:
        """Go on with a suspended program in the workspace of `session_id`.

        Args:
            program: Its state, from `SuspendedProgram.program`.
            answers: JSON values, or `Unanswered`, for some of its requests by their ids; the
                program waits for the others. Without any, only what it slept for goes on.
            session_id: Whose workspace the code sees.
            deadline_s: As for `execute`, for this stretch; fuel is the whole program's.

        Raises:
            AgentForgeError: The program can't be resumed here; the error says what can.
        """
        ...


@runtime_checkable
class QuestionChannel(Protocol):
    """Passes questions to a person and returns the replies.

    Every implementation guarantees: a submitted question outlives every process; any process finds
    its reply by its id; submitting a question twice under one id submits it once.
    """

    def id_for(self, key: str) -> str:
        """Return the question id for a key: always the same, and different for each key.

        Args:
            key: Names the question among all that are asked through any channel.
        """
        ...

    def check(self, questions: Sequence[Question]) -> None:
        """Raise with every reason why these questions can't be asked; submit nothing."""
        ...

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        """Show the questions to a person; do nothing if this id was submitted already.

        Args:
            question_id: The id, from `id_for()`.
            questions: What to ask, in this order.
            call_id: Names the asker to the person, or None.
            session: The session that asks, as `SessionRepository.reference` names it, or None. The
                questions stay open as long as a worker may continue it.
        """
        ...

    def withdraw(self, question_id: str, reason: str) -> None:
        """End a question whose answer no worker can use any more.

        Does nothing if it has ended or was never submitted.
        """
        ...

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        """Wait for a reply; None if there is none within `timeout_s` seconds.

        Raises:
            LookupError: No question was submitted under this id, or it was removed.
            OperationCancelled: The thread's operation was cancelled; the question stays open.
        """
        ...
