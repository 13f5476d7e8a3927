"""What the scenarios of metadata share: a clock, a recording logger, a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare


class Recorder:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.told.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.told.append(("warning", event, fields))

    @property
    def warnings(self) -> list[tuple[str, dict[str, object]]]:
        return [(event, fields) for level, event, fields in self.told if level == "warning"]


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2025, 11, 22, 10, 15, 30, 123456, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> datetime:
        self.now += timedelta(**by)
        return self.now


@pytest.fixture(scope="session")
def interpreter() -> None:
    prepare()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace"
