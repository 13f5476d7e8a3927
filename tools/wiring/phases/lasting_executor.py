"""Code that goes on with the variables of the session's earlier code."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from attrs import define, evolve

from ...base.errors import AgentForgeError
from ...harness import PhaseResult
from ...harness.session_layout import MAX_STEP_BYTES
from .executors import session_workspace
from .sandbox_executor import SandboxPhaseExecutor

if TYPE_CHECKING:
    from ...sandbox import Sandbox, SandboxResult

VARIABLES: Final = "variables.aflive"
"""The step that holds a session's variables."""


@define(eq=False)
class LastingExecutor(SandboxPhaseExecutor):
    """Runs a session's code with the variables that its last code left, also in another process.

    They are stored with the session by each code that ended well. Code that a limit ends leaves
    them as they were; code that waits changes them when it has ended.
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
        """Run code in the session's workspace; raise as `SandboxPhaseExecutor.execute`.

        Variables that cannot go on here are lost; the result's `stderr` says so.
        """
        from ...sandbox import (
            ProgramSnapshot,
            ProgramSnapshotRefused,
            ProgramSuspended,
            Sandbox,
            create_sandbox,
        )

        workspace = session_workspace(self._store, session_id)
        stored = self._store.read_step(session_id, VARIABLES)

        def run(sandbox: Sandbox) -> SandboxResult:
            return sandbox.execute(
                code, files=files, timeout=deadline_s, fuel=fuel, cancel=self._cancel
            )

        result = lost = None
        with ExitStack() as opened:
            if stored is not None:
                try:
                    sandbox = opened.enter_context(
                        Sandbox.restore(ProgramSnapshot(stored), workspace, policy=self._policy)
                    )
                    result = run(sandbox)
                except (ProgramSnapshotRefused, ProgramSuspended) as error:
                    lost = error  # nothing ran
            if result is None:
                sandbox = opened.enter_context(
                    create_sandbox(
                        workspace=workspace, policy=self._policy, stateful=True, durable=True
                    )
                )
                result = run(sandbox)
            found = self._settled(session_id, sandbox, result)
        return found if lost is None else _noted(found, "the earlier variables are lost", lost)

    def _settled(self, session_id: str, sandbox: Sandbox, result: SandboxResult) -> PhaseResult:
        """Convert a result; store the variables, unless the turn was undone or waits."""
        found = super()._settled(session_id, sandbox, result)
        if found.suspended is not None or result.metadata["turn_lost"] is not None:
            return found
        unchanged = "the next code starts with the variables of before"
        try:
            program = bytes(sandbox.snapshot())
            if len(program) > MAX_STEP_BYTES:
                size = f"they have {len(program):,} bytes, packed; at most {MAX_STEP_BYTES:,}"
                return _noted(found, unchanged, size)
            self._store.keep_step(session_id, VARIABLES, program)
        except AgentForgeError as error:  # what ran is still to be recorded
            return _noted(found, unchanged, error)
        return found


def _noted(result: PhaseResult, what: str, reason: object) -> PhaseResult:
    return evolve(result, stderr=f"{result.stderr}agentforge: {what}: {reason}\n")
