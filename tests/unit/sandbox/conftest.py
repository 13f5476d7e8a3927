"""What the sandbox's unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import SandboxResult


@pytest.fixture
def result() -> SandboxResult:
    return SandboxResult(
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
