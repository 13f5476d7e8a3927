"""Fixtures for pytest: `pytest_plugins = ["agentforge_sessions.testing.fixtures"]`.

The plugin is loaded by this line only, never by its mere presence. A fixture of the same name in a
`conftest.py` or a test module takes the place of one of these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .answers import ScriptedAnswers
from .manual_clock import ManualClock
from .memory_sessions import MemorySessions


@pytest.fixture
def memory_sessions(tmp_path: Path) -> MemorySessions:
    """A store in memory, of this test alone; workspaces are folders below `tmp_path`."""
    return MemorySessions(tmp_path / "sessions")


@pytest.fixture
def clock() -> ManualClock:
    """Time that the test moves; a sleep on it is over at once."""
    return ManualClock()


@pytest.fixture
def answers() -> ScriptedAnswers:
    """A channel to a person whose answers the test gives; a wait without one ends at once."""
    return ScriptedAnswers()
