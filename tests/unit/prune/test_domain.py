"""What a prune says of itself."""

from __future__ import annotations

import pytest
from attrs import evolve

from agentforge_sessions.prune import PruneResult, human_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KB"),
        (1_536, "1.5 KB"),
        (1_048_575, "1.0 MB"),
        (1_048_576, "1.0 MB"),
        (1_572_864, "1.5 MB"),
        (1_073_741_823, "1.0 GB"),
        (5 * 1024**3, "5.0 GB"),
        (1024**4, "1.0 TB"),
        (1024**5, "1.0 PB"),
        (5_000 * 1024**5, "5000.0 PB"),
    ],
)
def test_bytes_are_written_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_nothing_happened() -> None:
    assert str(PruneResult()) == "Deleted 0 sessions (0 B), skipped 0"


def test_a_dry_run_says_so() -> None:
    result = PruneResult(deleted_sessions=["a"], reclaimed_bytes=1_536, dry_run=True)
    assert str(result) == "Would delete 1 session (1.5 KB), skipped 0 [dry run]"


def test_everything_is_in_the_summary() -> None:
    result = PruneResult(
        deleted_sessions=["a", "b"],
        skipped_sessions=["c", "d", "e"],
        reclaimed_bytes=1_572_864,
        errors={"f": "why"},
        finished_sessions=["g"],
        purged_sessions=["h", "i"],
    )
    assert str(result) == (
        "Deleted 2 sessions (1.5 MB), skipped 3, finished 1 begun before, 2 left the trash, 1 error"
    )
    assert str(PruneResult(errors={"a": "", "b": ""})).endswith(", 2 errors")


def test_what_is_in_the_trash_is_not_called_deleted() -> None:
    trashed = PruneResult(deleted_sessions=["a"], reclaimed_bytes=1_536, trashed=True)
    assert str(trashed) == "Trashed 1 session (1.5 KB), skipped 0"
    assert str(evolve(trashed, dry_run=True)).startswith("Would trash 1 session")


def test_two_results_share_nothing() -> None:
    PruneResult().deleted_sessions.append("a")
    assert PruneResult().deleted_sessions == []
