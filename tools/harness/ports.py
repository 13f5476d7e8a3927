"""The ports of the harness: what it needs from the outside, named by itself.

`bootstrap` gives each its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from attrs import field, frozen

from ..base.question import Question
from .domain.history_events import QuestionEnded

TokenCounter = Callable[[str], int]
"""Returns how many tokens a model counts in a text."""


def _as_tuple(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(paths)


@frozen(kw_only=True)
class PhaseResult:
    """The result of one execution of phase work.

    Attributes:
        success: True when the code ran to its end with exit code 0.
        exit_code: The guest's exit code; None when a limit ended it first.
        trapped: Which limit ended it ("deadline", "fuel", "memory", "cancelled", …) or None.
        stdout: What it printed, decoded.
        stderr: What it printed to standard error, decoded.
        truncated: True when output went over the executor's limit.
        duration_s: Wall-clock time of the execution, in seconds.
        fuel_consumed: WebAssembly fuel used, where the executor knows it.
        files_created: Workspace-relative paths that exist now and did not before.
        files_modified: Workspace-relative paths whose file was written to.
        files_deleted: Workspace-relative paths that do not exist any more.
        workspace: The host directory that the code saw, or None.
        quota_exceeded: Names of the workspace's quotas that refused the code something.
        lost_writes: The files that are not what the code wrote, each with the reason. Where there
            are any, it is no success, whatever the exit code.
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

    @property
    def problem(self) -> str | None:
        """Why it is no success; None where it is one."""
        if self.success:
            return None
        problems = self.limit_problems()
        if self.trapped is None:
            problems.insert(0, f"exit code {self.exit_code}")
        return ", ".join(problems)

    def limit_problems(self) -> list[str]:
        """Say which limits stood in the way, for the record of a result that is no success."""
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

    Guarantees asked of every implementation: what the code does never raises here (it is in the
    result); the call returns within `deadline_s` plus a short grace; the code sees no file but
    those of the session's workspace; where the thread's operation is cancelled (`cancellation`),
    the code is ended soon and the result says "cancelled", or `OperationCancelled` is raised.
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
            files: Files to put into the workspace before, by their path from its top, over no link.
        """
        ...


@runtime_checkable
class QuestionChannel(Protocol):
    """Takes questions to a person, and has the replies.

    Guarantees asked of every implementation: a question that was put outlives every process; any
    process finds its reply by its id; putting a question twice under one id puts it once.
    """

    def id_for(self, key: str) -> str:
        """Return the id of what is asked under a key: always the same, and no other key's.

        Args:
            key: Names what is asked, among all that is asked through any channel.
        """
        ...

    def check(self, questions: Sequence[Question]) -> None:
        """Raise with everything that stands against asking these questions; put nothing."""
        ...

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        """Show the questions to a person; do nothing if they were put under this id already.

        Args:
            question_id: The id, from `id_for()`.
            questions: What to ask, in its order.
            call_id: Names the asker to the person, or None.
            session: The session that asks, as `SessionRepository.reference` names it, or None. The
                questions wait as long as a worker may go on with it.
        """
        ...

    def withdraw(self, question_id: str, reason: str) -> None:
        """End a question whose answer no worker can take any more.

        Does nothing to one that has ended or was never put.
        """
        ...

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        """Wait for a reply; None if there is none within `timeout_s` seconds.

        Raises:
            LookupError: No question was put under this id, or it was removed.
            OperationCancelled: The thread's operation was cancelled; the question waits on.
        """
        ...
