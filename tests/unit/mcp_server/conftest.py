"""What all tests of the server share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The server runs on asyncio alone."""
    return "asyncio"
