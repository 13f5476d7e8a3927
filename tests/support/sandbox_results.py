"""Results of executions that never took place."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from agentforge_sessions.sandbox import SandboxResult


def result_with(**changes: object) -> SandboxResult:
    """Return the result of an execution that ended well and did nothing, but for some fields."""
    plain = SandboxResult(
        success=True,
        stdout="",
        stderr="",
        exit_code=0,
        trapped=None,
        fuel_consumed=1,
        duration_s=0.1,
        files_created=(),
        files_modified=(),
        files_deleted=(),
        truncated=False,
        workspace_path=Path("/nowhere"),
    )
    return evolve(plain, **changes)
