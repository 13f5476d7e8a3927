"""`run_code`: Python in a session's sandbox, its result recorded in the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from attrs import frozen
from pydantic import Field

from ....base.clock import Clock, utc_now
from ....harness import PhaseExecutor, PhaseResult, SessionObserver
from ....harness.lazy import Lazy
from ....harness.session_domain import MAX_COUNT
from ....harness.session_ports import LocalSessions
from ....harness.snapshot_port import WorkspaceSnapshots
from .. import results
from ..arguments import MAX_DEADLINE_S, SessionId, Tokens
from ..calls import Call, Workers
from ..tool import Effect, answer, tool
from .recorded_run import Run, run_recorded

if TYPE_CHECKING:
    from ....sandbox import CancelToken

MAX_CODE_CHARS: Final = 1_000_000
"""Longest code that `run_code` takes."""
DEFAULT_OUTPUT_CHARS: Final = 16_000
MAX_OUTPUT_CHARS: Final = 200_000
_FILES_LISTED: Final = 100

MakeExecutor = Callable[["CancelToken"], PhaseExecutor]
"""Makes what runs the code of one call, and stops it when the token is cancelled."""


@frozen(kw_only=True)
class CodeTool:
    """Runs code in the workspaces of one store's sessions.

    Calls for one session run one after the other, in the order in which they came, so that each
    finds the session as the one before left it and its result is recorded.

    Attributes:
        store: Where the sessions are.
        workers: Where the code runs.
        make_executor: Makes what runs the code of a call.
        snapshots: Keeps workspaces at checkpoints; none is kept without it.
        clock: The time.
        observers: Who observes what happens to the sessions.
    """

    store: LocalSessions
    workers: Workers
    make_executor: MakeExecutor
    snapshots: Lazy[WorkspaceSnapshots] | None = None
    clock: Clock = utc_now
    observers: Sequence[SessionObserver] = ()

    @tool("Run Python in the sandbox", Effect.DESTROYS)
    async def run_code(
        self,
        call: Call,
        session_id: SessionId,
        code: Annotated[
            str,
            Field(
                max_length=MAX_CODE_CHARS,
                description="Python source. It sees the session's workspace as its working "
                "directory and nothing else: no network, no other files, no subprocesses.",
            ),
        ],
        deadline_s: Annotated[
            float | None,
            Field(
                gt=0,
                le=MAX_DEADLINE_S,
                description="Wall-clock seconds it may run; 60 if left out.",
            ),
        ] = None,
        fuel: Annotated[
            int | None,
            Field(
                ge=1,
                le=MAX_COUNT,
                description="WebAssembly instructions it may execute; the sandbox's default if "
                "left out.",
            ),
        ] = None,
        tokens: Tokens = None,
        output_chars: Annotated[
            int,
            Field(
                ge=100,
                le=MAX_OUTPUT_CHARS,
                description="The most characters of each output stream that come back.",
            ),
        ] = DEFAULT_OUTPUT_CHARS,
    ) -> results.RunCodeAnswer:
        """Run Python in the session's sealed sandbox and record the result in its history.

        The standard library is there; the working directory is the session's workspace,
        whose files last from call to call (variables do not). No network, no subprocesses.
        Code that fails, or that a limit ends, is a result with success false, not an error;
        it is recorded as phase_failed. Correct it and run again, or begin another attempt
        with session_retry. Calls for one session run one after the other. If this call is
        cancelled, the code is stopped and recorded as cancelled. recorded false means that
        the code ran, but another process changed the session meanwhile or the disk refused
        the record: read record_problem, and don't run the code again for that. An error
        means that no code ran, unless it says that the server is stopping.
        """
        from ....sandbox import CancelToken

        token = CancelToken()
        async with (
            self.workers.turn(call, session_id),
            self.workers.reporting(call, "running the code"),
        ):
            run = await self.workers.code(
                lambda: run_recorded(
                    self.store,
                    session_id,
                    lambda manager: manager.run_phase(
                        code, tokens=tokens or 0, deadline_s=deadline_s, fuel=fuel
                    ),
                    executor=self.make_executor(token),
                    clock=self.clock,
                    snapshots=self.snapshots,
                    observers=self.observers,
                ),
                stop=token.cancel,
            )
        shown = self._result(run, output_chars)
        return answer(shown, _text(shown, run.result))

    def _result(self, run: Run, limit: int) -> results.RunCodeResult:
        result = run.result
        stdout, out_cut = results.cut(result.stdout, limit)
        stderr, err_cut = results.cut(result.stderr, limit)
        lists = (result.files_created, result.files_modified, result.files_deleted)
        return results.RunCodeResult(
            session=results.SessionStateResult.of(run.session, self.store),
            recorded=run.is_recorded,
            record_problem=run.problem,
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


def _text(shown: results.RunCodeResult, result: PhaseResult) -> str:
    lines = []
    if not shown.recorded:
        lines.append(
            f"The code ran, but its result is NOT recorded in the session: {shown.record_problem} "
            "Its files are in the workspace; its tokens, artifacts and output are in this result "
            "alone. Look at the session with session_show, then record what matters with "
            "session_record. Do not run the code again for the record's sake."
        )
    elif shown.record_problem is not None:
        lines.append(f"The result is recorded, but: {shown.record_problem}")
    lines.append(f"{'Succeeded' if shown.success else 'Failed'}: {results.outcome_line(result)}.")
    for word, paths in (
        ("Created", shown.files_created),
        ("Modified", shown.files_modified),
        ("Deleted", shown.files_deleted),
    ):
        if paths:
            lines.append(f"{word}: {', '.join(paths)}")
    if shown.files_unlisted:
        lines.append(f"({shown.files_unlisted} more files)")
    for label, output in (("stdout", shown.stdout), ("stderr", shown.stderr)):
        if output:
            lines.append(f"{label}:\n{output.rstrip()}")
    if shown.truncated:
        lines.append("(Some output was cut off.)")
    return "\n".join(lines)
