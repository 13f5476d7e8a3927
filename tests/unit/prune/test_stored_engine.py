"""A prune of what a store has as rows, as far as no database is needed for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from attrs import define

from agentforge_sessions.prune import (
    Candidate,
    RetentionPolicy,
    Skipped,
    StoredSessions,
    prune_stored,
)


@define
class Empty:
    """A store without sessions that notes what it was asked for."""

    root: Path = Path("postgresql://here")
    kind: str = "harness"
    older_than: timedelta | None = None
    candidates: tuple[Candidate, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    skipped_bytes: int = 0

    def inspect(self, *, now: datetime, older_than: timedelta | None) -> Empty:
        assert now.tzinfo is UTC
        self.older_than = older_than
        return self

    def remove(self, *_: object, **__: object) -> None:
        raise AssertionError


@pytest.mark.parametrize("hours", [24e9, 1e300, 10**400], ids=["float", "large", "int"])
def test_an_age_that_is_longer_than_there_are_dates_asks_for_nothing(hours: float) -> None:
    """As in a prune of directories."""
    store = Empty()
    result = prune_stored(cast("StoredSessions", store), RetentionPolicy(max_age_hours=hours))
    assert store.older_than == timedelta.max
    assert not result.deleted_sessions
