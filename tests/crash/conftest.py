"""One process for each file from which the tasks are forked: its imports are made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash._nursery import Nursery


@pytest.fixture(scope="module")
def _started_nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
def nursery(_started_nursery: Nursery) -> Iterator[Nursery]:
    """Start tasks in processes of their own; none of them outlives the test."""
    yield _started_nursery
    _started_nursery.clear()
