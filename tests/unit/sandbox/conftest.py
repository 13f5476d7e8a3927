"""What the sandbox's unit tests share."""

from __future__ import annotations

import pytest

from agentforge_sessions.sandbox import SandboxResult
from tests.support.sandbox_results import result_with


@pytest.fixture
def result() -> SandboxResult:
    return result_with()
