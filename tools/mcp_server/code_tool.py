"""`run_code`: Python in a session's sandbox, its result recorded in the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from tools.bootstrap import SandboxPhaseExecutor
from tools.clock import Clock, utc_now
from tools.harness import (
    PhaseExecutor,
    PhaseResult,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionStore,
)
from tools.mcp_server import arguments as takes
from tools.mcp_server import results as gives
from tools.mcp_server.calls import Call, Workers
from tools.mcp_server.tool import Answer, Tool
from tools.sandbox import CancelToken

_FILES_LISTED: Final = 100

MakeExecutor = Callable[[CancelToken], PhaseExecutor]
"""Makes what runs the code of one call, and stops it when the token is cancelled."""


@frozen(kw_only=True)
class CodeTool:
    """Runs code in the workspaces of one store's sessions.

    Attributes:
        store: Where the sessions are.
        workers: Where the code runs.
        clock: The time.
        make_executor: Makes what runs the code of a call; the sandbox if None.
    """

    store: SessionStore
    workers: Workers
    clock: Clock = utc_now
    make_executor: MakeExecutor | None = None

    async def run(self, call: Call, given: takes.RunCode) -> Answer:
        """Run code; a call that is cancelled stops it, and records that it was stopped."""
        token = CancelToken()

        def work() -> tuple[SessionContext, PhaseResult]:
            manager = SessionManager(self.store, executor=self._executor(token), clock=self.clock)
            session = manager.load(given.session_id)
            if session is None:
                raise SessionNotFound(given.session_id, path=self.store.base_path)
            result = manager.run_phase(
                given.code, tokens=given.tokens, deadline_s=given.deadline_s, fuel=given.fuel
            )
            return session, result

        async with self.workers.telling(call, "running the code"):
            session, result = await self.workers.code(work, stop=token.cancel)
        told = self._result(session, result, given.output_chars)
        return Answer(told, _text(told, result))

    def _executor(self, token: CancelToken) -> PhaseExecutor:
        if self.make_executor is not None:
            return self.make_executor(token)
        return SandboxPhaseExecutor(self.store, kept=0, cancel=token)

    def _result(
        self, session: SessionContext, result: PhaseResult, limit: int
    ) -> gives.RunCodeResult:
        stdout, out_cut = gives.cut(result.stdout, limit)
        stderr, err_cut = gives.cut(result.stderr, limit)
        lists = (result.files_created, result.files_modified, result.files_deleted)
        return gives.RunCodeResult(
            session=gives.SessionStateResult.of(session, self.store),
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            stdout=stdout,
            stderr=stderr,
            truncated=result.truncated or out_cut or err_cut,
            duration_s=round(result.duration_s, 3),
            fuel_consumed=result.fuel_consumed,
            files_created=list(result.files_created[:_FILES_LISTED]),
            files_modified=list(result.files_modified[:_FILES_LISTED]),
            files_deleted=list(result.files_deleted[:_FILES_LISTED]),
            files_unlisted=sum(max(len(one) - _FILES_LISTED, 0) for one in lists),
            quota_exceeded=list(result.quota_exceeded),
        )

    def tools(self) -> tuple[Tool, ...]:
        """The one tool."""
        return (
            Tool(
                name="run_code",
                title="Run Python in the sandbox",
                description=(
                    "Run Python in the session's sealed sandbox and record the result in the "
                    "session's history. The standard library is there; the working directory is "
                    "the session's workspace, whose files last from call to call (variables do "
                    "not). No network, no subprocesses. Code that fails, or that a limit ends, is "
                    "a result with success false, not an error. A failed run counts as a failed "
                    "attempt in the history; go on with session_retry or simply run again."
                ),
                arguments=takes.RunCode,
                result=gives.RunCodeResult,
                run=self.run,
                destructive=True,
            ),
        )


def _text(told: gives.RunCodeResult, result: PhaseResult) -> str:
    lines = [f"{'Succeeded' if told.success else 'Failed'}: {gives.outcome_line(result)}."]
    for word, paths in (
        ("Created", told.files_created),
        ("Modified", told.files_modified),
        ("Deleted", told.files_deleted),
    ):
        if paths:
            lines.append(f"{word}: {', '.join(paths)}")
    if told.files_unlisted:
        lines.append(f"({told.files_unlisted} more files)")
    for label, output in (("stdout", told.stdout), ("stderr", told.stderr)):
        if output:
            lines.append(f"{label}:\n{output.rstrip()}")
    if told.truncated:
        lines.append("(Some output was cut off.)")
    return "\n".join(lines)
