"""What the scenarios of metadata share: a clock, a recording logger, a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.recorder import Recorder


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
