"""What the scenarios of sessions share: a root, a recording logger, the session abc-123."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_session_sandbox, prepare
from tests.support.recorder import Recorder


@pytest.fixture(scope="session")
def interpreter() -> None:
    prepare()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Deep enough that a path which climbs out stays within the test's own directory."""
    return tmp_path / "d1" / "d2" / "d3" / "d4" / "workspace"


@pytest.fixture
def abc(root: Path) -> Path:
    """The workspace of the session abc-123, empty."""
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    assert isinstance(sandbox, Sandbox)
    return sandbox.workspace
