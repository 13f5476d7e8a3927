"""What the scenarios of question sessions share."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.questions import QuestionSessions
from tests.support.clock import FakeClock
from tests.support.questions import build


@pytest.fixture
def questions_dir(tmp_path: Path) -> Path:
    return tmp_path / "questions"


@pytest.fixture
def sessions(questions_dir: Path, clock: FakeClock) -> QuestionSessions:
    return build(questions_dir, clock=clock)
