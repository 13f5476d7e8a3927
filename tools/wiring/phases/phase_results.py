"""What became of code in the sandbox, as the harness has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...harness import PhaseResult

if TYPE_CHECKING:
    from ...sandbox import SandboxResult


def phase_result(result: SandboxResult) -> PhaseResult:
    """Return the harness's form of a sandbox's result."""
    return PhaseResult(
        success=result.success,
        exit_code=result.exit_code,
        trapped=result.trapped,
        stdout=result.stdout,
        stderr=result.stderr,
        truncated=result.truncated,
        duration_s=result.duration_s,
        fuel_consumed=result.fuel_consumed,
        files_created=result.files_created,
        files_modified=result.files_modified,
        files_deleted=result.files_deleted,
        workspace=result.workspace_path,
        quota_exceeded=cast("tuple[str, ...]", result.metadata["quota_exceeded"]),
        lost_writes=tuple(f"{lost.path} ({lost.errno})" for lost in result.lost_writes),
    )
