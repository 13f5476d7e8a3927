from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository.snapshots.snapshot_repository import SnapshotRepository
from agentforge_sessions.repository.snapshots.snapshots import Snapshots


def ticking() -> Iterator[datetime]:
    return (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=tick) for tick in count())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "session" / "workspace"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def snapshots(workspace: Path) -> Snapshots:
    moments = ticking()
    repository = SnapshotRepository(workspace.with_name(SNAPSHOTS), workspace)
    repository.make()
    return Snapshots(repository, clock=lambda: next(moments))
