"""Phase executors that run nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attrs import define, field, frozen

from agentforge_sessions.harness import PhaseResult

SUCCEEDED: Final = PhaseResult(success=True, exit_code=0, stdout="done\n", duration_s=0.25)
FAILED: Final = PhaseResult(success=False, exit_code=1, stderr="AssertionError\n", duration_s=0.25)
TRAPPED: Final = PhaseResult(success=False, trapped="deadline", duration_s=5.0)


@frozen
class Execution:
    """What an executor was asked to do."""

    code: str
    session_id: str
    deadline_s: float | None
    fuel: int | None
    files: Mapping[str, bytes | str] | None = None


@define
class FakeExecutor:
    """Answers with the results it was given, in turn, the last one for ever."""

    results: list[PhaseResult] = field(factory=lambda: [SUCCEEDED], converter=list)
    during: Callable[[], object] | None = None
    executions: list[Execution] = field(factory=list)

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        self.executions.append(Execution(code, session_id, deadline_s, fuel, files))
        if self.during is not None:
            self.during()
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    @classmethod
    def answering(cls, results: Iterable[PhaseResult]) -> FakeExecutor:
        return cls(list(results))
