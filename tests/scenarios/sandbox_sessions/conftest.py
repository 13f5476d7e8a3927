"""What the scenarios of sessions share: a root, a recording logger, the session abc-123."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_session_sandbox, prepare


class Recorder:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.told.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.told.append(("warning", event, fields))

    def of(self, event: str) -> list[dict[str, object]]:
        return [fields for _, name, fields in self.told if name == event]

    @property
    def warnings(self) -> list[str]:
        return [name for level, name, _ in self.told if level == "warning"]


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
