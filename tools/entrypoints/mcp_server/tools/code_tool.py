"""`run_code`: Python in a session's sandbox, its result recorded in the session.

The result is returned even if the session could not record it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final

from attrs import define, frozen
from pydantic import Field, PrivateAttr

from ....base.errors import AgentForgeError
from ....base.event_log import get_logger
from ....base.files import WriteError
from ....base.result import Success, attempt
from ....harness import (
    PhaseExecutor,
    PhaseResult,
    PhaseWaits,
    SessionConflict,
    SessionContext,
    SessionManager,
)
from ....harness.session_domain import MAX_COUNT
from ..arguments import MAX_DEADLINE_S, SessionId, Tokens
from ..calls import Call
from ..results import SessionStateResult, ToolResult, cut
from ..tool import Effect, tool
from .session_access import SessionAccess

_log = get_logger("agentforge.mcp")


@define
class _Remembering:
    """Executor that remembers its result, so that the result survives a failed record."""

    executor: PhaseExecutor
    result: PhaseResult | None = None

    def execute(self, code: str, **limits: Any) -> PhaseResult:
        self.result = self.executor.execute(code, **limits)
        return self.result

    @property
    def resume(self) -> Callable[..., PhaseResult] | None:
        resume: Callable[..., PhaseResult] | None = getattr(self.executor, "resume", None)
        return None if resume is None else partial(self._resumed, resume)

    def _resumed(self, resume: Callable[..., PhaseResult], *given: Any, **more: Any) -> PhaseResult:
        self.result = resume(*given, **more)
        return self.result


@frozen(kw_only=True)
class RecordedRun:
    """One run of code, and whether its session recorded the result.

    Attributes:
        session: The session after the run.
        result: How the code ended.
        error: Why the result could not be recorded, or not safely; or what the code waits for; or
            None.
    """

    session: SessionContext
    result: PhaseResult
    error: AgentForgeError | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the session recorded the result."""
        is_visible = isinstance(self.error, WriteError) and self.error.visible
        return self.error is None or is_visible or self.waits is not None

    @property
    def waits(self) -> PhaseWaits | None:
        """What the code waits for, if it is suspended."""
        return self.error if isinstance(self.error, PhaseWaits) else None

    @property
    def problem(self) -> str | None:
        """Why it is not recorded, without a conflict's own advice to repeat the call."""
        error = self.error
        if error is None or self.waits is not None:
            return None
        reason = str(error)
        if isinstance(error, SessionConflict):
            reason = "while the code ran, another process ended or changed the session: it " + (
                "deleted it."
                if error.actual_revision is None
                else f"saved revision {error.actual_revision} of it, where this call began with "
                f"revision {error.expected_revision}."
            )
        return f"{type(error).__name__}: {reason}"


def run_recorded(
    sessions: SessionAccess,
    session_id: str,
    act: Callable[[SessionManager], PhaseResult],
    *,
    executor: PhaseExecutor,
) -> RecordedRun:
    """Run code with `SessionManager.run_phase`; return its result even if it is not recorded.

    Raises:
        SessionNotFound: There is no such session. As with every other error, no code ran.
    """
    remembering = _Remembering(executor)
    manager, session = sessions.lead(session_id, remembering)
    outcome = attempt(act, manager)
    if isinstance(outcome, Success):
        return RecordedRun(session=session, result=outcome.value)
    if remembering.result is None:
        raise outcome.error
    if not isinstance(outcome.error, PhaseWaits):
        _log.warning("mcp.result_not_recorded", session_id=session_id, error=outcome.code)
    found = attempt(sessions.store.load, session_id)
    on_disk = found.value if isinstance(found, Success) else None
    return RecordedRun(session=on_disk or session, result=remembering.result, error=outcome.error)


MAX_CODE_CHARS: Final = 1_000_000
"""The longest code that `run_code` accepts, in characters."""
DEFAULT_OUTPUT_CHARS: Final = 16_000
MAX_OUTPUT_CHARS: Final = 200_000
_FILES_LISTED: Final = 100


class RunCodeResult(ToolResult):
    """Result of code, as recorded in the session.

    Attributes:
        recorded: False if the code ran but the session did not record it.
        record_problem: Why the result is not recorded, or not durably.
        success: Whether it ran to its end with exit code 0.
        exit_code: None if a limit ended it.
        trapped: The limit that ended it: deadline, fuel, memory, cancelled, …
        suspended: Where the code waits and what for, if it has not ended.
        truncated: Whether the sandbox or output_chars cut off some output.
        files_unlisted: The number of further files.
    """

    session: SessionStateResult
    recorded: bool
    record_problem: str | None
    success: bool
    exit_code: int | None
    trapped: str | None
    suspended: str | None
    stdout: str
    stderr: str
    truncated: bool
    duration_s: float
    fuel_consumed: int | None
    files_created: list[str]
    files_modified: list[str]
    files_deleted: list[str]
    files_unlisted: int
    quota_exceeded: list[str]
    _outcome: str = PrivateAttr("")

    @classmethod
    def of(
        cls, run: RecordedRun, session: SessionStateResult, *, output_chars: int
    ) -> RunCodeResult:
        """Describe a run with at most `output_chars` characters of each output stream."""
        result = run.result
        stdout, out_cut = cut(result.stdout, output_chars)
        stderr, err_cut = cut(result.stderr, output_chars)
        lists = (result.files_created, result.files_modified, result.files_deleted)
        created, modified, deleted = (list(one[:_FILES_LISTED]) for one in lists)
        made = cls(
            session=session,
            recorded=run.is_recorded,
            record_problem=run.problem,
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            suspended=None if run.waits is None else run.waits.awaited,
            stdout=stdout,
            stderr=stderr,
            truncated=result.truncated or out_cut or err_cut,
            duration_s=round(result.duration_s, 3),
            fuel_consumed=result.fuel_consumed,
            files_created=created,
            files_modified=modified,
            files_deleted=deleted,
            files_unlisted=sum(max(len(one) - _FILES_LISTED, 0) for one in lists),
            quota_exceeded=list(result.quota_exceeded),
        )
        made._outcome = _outcome(result)
        return made

    def in_words(self) -> str:
        """Describe the end of the code, the files that it changed, and its output."""
        lines = []
        if not self.recorded:
            lines.append(
                f"The code ran, but its result is NOT recorded in the session: "
                f"{self.record_problem} Its files are in the workspace; its tokens, artifacts and "
                "output are in this result alone. Look at the session with session_show, then "
                "record what matters with session_record. Do not run the code again for the "
                "record's sake."
            )
        elif self.record_problem is not None:
            lines.append(f"The result is recorded, but: {self.record_problem}")
        if self.suspended is None:
            lines.append(f"{'Succeeded' if self.success else 'Failed'}: {self._outcome}.")
        else:
            lines.append(
                f"Suspended: it waits {self.suspended}. Run exactly the same code again once that "
                "is so: it goes on at that line, and nothing before it runs again."
            )
        changed = {
            "Created": self.files_created,
            "Modified": self.files_modified,
            "Deleted": self.files_deleted,
        }
        lines += [f"{word}: {', '.join(paths)}" for word, paths in changed.items() if paths]
        if self.files_unlisted:
            lines.append(f"({self.files_unlisted} more files)")
        outputs = {"stdout": self.stdout, "stderr": self.stderr}
        lines += [f"{label}:\n{output.rstrip()}" for label, output in outputs.items() if output]
        if self.truncated:
            lines.append("(Some output was cut off.)")
        return "\n".join(lines)


def _outcome(result: PhaseResult) -> str:
    """Describe in one line how code ended."""
    facts = [*result.limit_problems()]
    if result.trapped is None:
        facts.insert(0, f"exit code {result.exit_code}")
    facts.append(f"{result.duration_s:.2f} s")
    return "; ".join(facts)


@frozen
class CodeTool:
    """Tool that runs code in the workspaces of one store's sessions.

    Calls for one session run one after the other, in the order of arrival, so that each starts from
    the state that the previous one left, and its result is recorded.

    Attributes:
        sessions: The calls' access to sessions.
        make_executor: Creates the executor of a call's code, which stops it when the token is
            cancelled; with `lasting=True`, one whose variables last.
    """

    sessions: SessionAccess
    make_executor: Callable[..., PhaseExecutor]

    @tool("Run Python in the sandbox", Effect.DESTROYS)
    async def run_code(
        self,
        call: Call,
        session_id: SessionId,
        code: Annotated[str, Field(max_length=MAX_CODE_CHARS)],
        deadline_s: Annotated[float | None, Field(gt=0, le=MAX_DEADLINE_S)] = None,
        fuel: Annotated[int | None, Field(ge=1, le=MAX_COUNT)] = None,
        tokens: Tokens = None,
        state: bool = False,
        output_chars: Annotated[int, Field(ge=100, le=MAX_OUTPUT_CHARS)] = DEFAULT_OUTPUT_CHARS,
    ) -> RunCodeResult:
        """Run Python in the session's sealed sandbox and record the result in its history.

        The standard library is there; the working directory is the session's workspace,
        whose files last from call to call; with state true, variables, functions and imports
        do, too, also across servers (not what a limit stopped). No network, no subprocesses.
        Code that fails, or that a limit ends, is a result with success false, not an error;
        it is recorded as phase_failed. Correct it and run again, or begin another attempt
        with session_retry. Calls for one session run one after the other. If this call is
        cancelled, the code is stopped and recorded as cancelled. recorded false means that
        the code ran, but another process changed the session meanwhile or the disk refused
        the record: read record_problem, and don't run the code again for that. An error
        means that no code ran, unless it says that the server is stopping.

        Args:
            code: Python source.
            deadline_s: Wall-clock seconds it may run; 60 if left out.
            fuel: WebAssembly instructions it may execute; the sandbox's default if left out.
            state: Start with the variables that the last code with state left.
            output_chars: The most characters of each output stream that come back.
        """
        from ....base.cancellation import CancelToken

        token, workers = CancelToken(), self.sessions.workers
        async with workers.turn(call, session_id), workers.reporting(call, "running the code"):
            run = await workers.code(
                lambda: run_recorded(
                    self.sessions,
                    session_id,
                    lambda manager: manager.run_phase(
                        code, tokens=tokens or 0, deadline_s=deadline_s, fuel=fuel
                    ),
                    executor=self.make_executor(token, **({"lasting": True} if state else {})),
                ),
                stop=token.cancel,
            )
        session = self.sessions.state(run.session)
        return RunCodeResult.of(run, session, output_chars=output_chars)
