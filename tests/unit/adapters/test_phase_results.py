"""What the harness is given of an execution in the sandbox."""

from __future__ import annotations

from pathlib import Path

from agentforge_sessions.harness import PhaseResult
from agentforge_sessions.sandbox import SandboxResult
from agentforge_sessions.sandbox.result_parts import LostWrite
from agentforge_sessions.wiring.phases.executors import phase_result


def test_everything_that_the_harness_knows_is_handed_on() -> None:
    result = SandboxResult(
        success=False,
        stdout="out",
        stderr="error",
        exit_code=0,
        trapped="files",
        fuel_consumed=7,
        duration_s=0.5,
        files_created=("new",),
        files_modified=("old",),
        files_deleted=("left",),
        truncated=True,
        workspace_path=Path("/workspace"),
        metadata={"quota_exceeded": ("file_bytes",)},
        lost_writes=(LostWrite(path="new", method="write", errno="EFBIG", at="write"),),
    )
    assert phase_result(result) == PhaseResult(
        success=False,
        stdout="out",
        stderr="error",
        exit_code=0,
        trapped="files",
        fuel_consumed=7,
        duration_s=0.5,
        files_created=("new",),
        files_modified=("old",),
        files_deleted=("left",),
        truncated=True,
        workspace=Path("/workspace"),
        quota_exceeded=("file_bytes",),
        lost_writes=("new (EFBIG)",),
    )
    assert phase_result(result).limit_problems() == [
        "stopped by the limit on file calls",
        "quota exceeded: file_bytes",
        "not kept: new (EFBIG)",
    ]
