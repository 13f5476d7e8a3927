"""AC-025 … AC-027: cleaning up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import InvalidSession, SessionManager, SessionStore
from tests.support.clock import FakeClock

DAY = 86_400


@pytest.fixture
def kinds(manager: SessionManager, clock: FakeClock) -> dict[str, str]:
    """One session of each state that ended (or last changed) 10 days ago, and each from today."""
    made = {}
    for age in ("old", "new"):
        for state in ("active", "paused", "completed", "aborted"):
            session = manager.create()
            made[f"{age} {state}"] = session.session_id
            if state == "paused":
                manager.pause()
            elif state == "completed":
                manager.complete()
            elif state == "aborted":
                manager.abort()
            manager.release()
            clock.advance(1)
        if age == "old":
            clock.advance(10 * DAY)
    return made


def test_ac_025_cleanup_removes_old_completed_and_aborted_sessions(
    manager: SessionManager, kinds: dict[str, str], base: Path
) -> None:
    gone = manager.cleanup_old_sessions(days=7)

    assert gone == [kinds["old completed"], kinds["old aborted"]]
    assert manager.store.list_sessions() == sorted(
        session_id for kind, session_id in kinds.items() if session_id not in gone
    )
    assert not (base / kinds["old completed"]).exists()
    assert sorted(p.name for p in base.iterdir()) == sorted(
        [".gitkeep", ".prune", *(set(kinds.values()) - set(gone))]
    )


def test_ac_025_the_day_is_counted_from_the_end(manager: SessionManager, clock: FakeClock) -> None:
    session = manager.create()
    clock.advance(30 * DAY)
    manager.complete()
    clock.advance(7 * DAY)

    assert manager.cleanup_old_sessions(days=7) == []  # 7 days are not more than 7
    clock.advance(0.000_001)
    assert manager.cleanup_old_sessions(days=7) == [session.session_id]


@pytest.mark.parametrize(
    "days", [-1, float("nan"), float("inf"), True, "30", None, b"3", [30], timedelta(days=30), 1j]
)
def test_ac_025_what_is_no_number_of_days_deletes_nothing(
    manager: SessionManager, kinds: dict[str, str], days: Any
) -> None:
    with pytest.raises(InvalidSession, match="days"):
        manager.cleanup_old_sessions(days=days)

    assert len(manager.store.list_sessions()) == 8


@pytest.mark.parametrize("dry_run", [None, 0, 1, "no"])
def test_ac_025_what_does_not_say_whether_it_is_a_dry_run_deletes_nothing(
    manager: SessionManager, kinds: dict[str, str], dry_run: Any
) -> None:
    with pytest.raises(InvalidSession, match="dry_run: expected True or False"):
        manager.cleanup_old_sessions(days=0, dry_run=dry_run)

    assert len(manager.store.list_sessions()) == 8


def test_ac_026_cleanup_keeps_active_and_paused_sessions_whatever_their_age(
    manager: SessionManager, kinds: dict[str, str], clock: FakeClock
) -> None:
    clock.advance(10_000 * DAY)

    manager.cleanup_old_sessions(days=0)

    assert manager.store.list_sessions() == sorted(
        session_id for kind, session_id in kinds.items() if kind.endswith((" active", " paused"))
    )


def test_ac_026_cleanup_keeps_what_it_cannot_read(
    manager: SessionManager, kinds: dict[str, str], clock: FakeClock
) -> None:
    path = manager.store.session_path(kinds["old completed"])
    path.write_text("broken: [")

    assert manager.cleanup_old_sessions(days=0) == [
        kinds["old aborted"],
        kinds["new completed"],
        kinds["new aborted"],
    ]
    assert path.read_text() == "broken: ["


def test_ac_027_a_dry_run_names_but_deletes_nothing(
    manager: SessionManager, kinds: dict[str, str], base: Path
) -> None:
    before = {p: p.stat().st_mtime_ns for p in base.rglob("*")}

    named = manager.cleanup_old_sessions(days=7, dry_run=True)

    assert {p: p.stat().st_mtime_ns for p in base.rglob("*")} == before
    assert named == [kinds["old completed"], kinds["old aborted"]]
    assert SessionStore(base).list_sessions() == sorted(kinds.values())
    assert manager.cleanup_old_sessions(days=7) == named
