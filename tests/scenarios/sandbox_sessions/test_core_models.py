"""What a result says of the session it belongs to."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import SandboxResult, create_sandbox, create_session_sandbox

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("interpreter")]


@pytest.fixture
def executed(root: Path) -> tuple[str, Path, SandboxResult]:
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    return session_id, sandbox.workspace, sandbox.execute("open('here.txt', 'w').close()")


def test_scenario_include_session_id_in_metadata(root: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    result = sandbox.execute("pass")
    assert isinstance(result.metadata, dict)
    assert result.metadata["session_id"] == "abc-123"


def test_scenario_metadata_remains_optional_for_non_session_usage(tmp_path: Path) -> None:
    result = create_sandbox(workspace=tmp_path / "w").execute("pass")
    assert isinstance(result, SandboxResult)
    assert result.success
    assert "session_id" not in result.metadata


def test_scenario_session_id_in_metadata_is_string_type(
    executed: tuple[str, Path, SandboxResult],
) -> None:
    session_id, _, result = executed
    found = result.metadata["session_id"]
    assert isinstance(found, str)
    assert str(uuid.UUID(found)) == found == session_id


def test_scenario_workspace_path_for_session_execution(
    root: Path, executed: tuple[str, Path, SandboxResult]
) -> None:
    session_id, workspace, result = executed
    assert result.workspace_path == workspace == root / session_id
    assert (result.workspace_path / "here.txt").exists()


def test_scenario_workspace_path_for_non_session_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert create_sandbox().execute("pass").workspace_path == tmp_path / "workspace"
