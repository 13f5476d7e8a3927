"""AC-017 … AC-022: phases, checkpoints, artifacts and the audit trail."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionManager,
    SessionStore,
)
from tests.support.clock import FakeClock


def on_disk(base: Path, session: SessionContext) -> SessionContext:
    found = SessionStore(base).load(session.session_id)
    assert found is not None
    return found


def test_ac_017_advance_phase_updates_the_phase_saves_and_records(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create("tdflow", "red")
    manager.retry_phase()
    clock.advance(10)

    manager.advance_phase("green")

    assert session.current_phase == "green"
    assert session.attempt_number == 1
    last = session.history[-1]
    assert (last.action, last.phase, last.details) == (
        "phase_advanced",
        "green",
        "from red to green",
    )
    assert last.timestamp == clock.now
    assert on_disk(base, session) == session


def test_ac_017_the_first_phase_comes_from_nowhere(manager: SessionManager) -> None:
    session = manager.create()

    manager.advance_phase("red")

    assert session.history[-1].details == "to red"


@pytest.mark.parametrize("phase", ["", "  ", "two\nlines", "x" * 201, None, 7])
def test_ac_017_what_is_no_name_is_no_phase(
    manager: SessionManager, base: Path, phase: object
) -> None:
    session = manager.create("tdflow", "red")

    with pytest.raises(InvalidSession):
        manager.advance_phase(phase)  # type: ignore[arg-type]

    assert session.current_phase == "red"
    assert on_disk(base, session) == session


def test_ac_018_tdflow_goes_red_green_refactor_each_checkpointed_on_disk(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create("tdflow", "red")
    assert on_disk(base, session).current_phase == "red"
    for number, phase in enumerate(["green", "refactor"], start=2):
        clock.advance(30)
        manager.advance_phase(phase)
        found = on_disk(base, session)
        assert found.current_phase == phase
        assert found.revision == number
        assert found.updated_at == clock.now
        assert found.history[-1].phase == phase

    assert [entry.phase for entry in session.history if entry.action == "phase_advanced"] == [
        "green",
        "refactor",
    ]


def test_ac_019_an_artifact_has_a_time_and_the_current_phase(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create("tdflow", "red")
    clock.advance(5)

    artifact = manager.add_artifact("tests/test_it.py", "created")

    assert artifact == SessionArtifact("tests/test_it.py", "created", clock.now, "red")
    assert session.artifacts == [artifact]
    assert on_disk(base, session).artifacts == [artifact]


def test_ac_020_get_artifacts_gives_those_of_a_phase_in_order(manager: SessionManager) -> None:
    session = manager.create("tdflow", "red")
    manager.add_artifact("a", "created")
    manager.advance_phase("green")
    manager.add_artifact("b", "created")
    manager.add_artifact("a", "modified")

    assert [a.path for a in session.get_artifacts("red")] == ["a"]
    assert [a.path for a in session.get_artifacts("green")] == ["b", "a"]
    assert [a.path for a in session.get_artifacts("refactor")] == []
    assert [a.path for a in session.get_artifacts()] == ["a", "b", "a"]


def test_ac_021_advance_phase_saves_without_being_asked(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create("tdflow", "red")
    path = manager.store.session_path(session.session_id)
    before = path.read_bytes()

    manager.advance_phase("green")

    assert path.read_bytes() != before
    assert on_disk(base, session).current_phase == "green"


def test_ac_022_checkpoint_saves_without_a_change_of_phase(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create("tdflow", "red")
    clock.advance(5)

    path = manager.checkpoint_session()

    assert path == base / session.session_id / "session.yaml"
    found = on_disk(base, session)
    assert found == session
    assert found.current_phase == "red"
    assert found.attempt_number == 1
    assert (found.history[-1].action, found.history[-1].timestamp) == ("checkpoint", clock.now)
    assert found.revision == 2


def test_ac_022_a_paused_session_can_be_checkpointed(manager: SessionManager, base: Path) -> None:
    session = manager.create()
    manager.pause()

    manager.checkpoint_session()

    assert on_disk(base, session).history[-1].action == "checkpoint"


def test_a_history_entry_has_a_time_an_action_a_phase_and_details(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create("spec", "analysis")
    clock.advance(5)

    manager.add_history("question_asked", "Which zone\nare the times in?")

    entry = on_disk(base, session).history[-1]
    assert entry.timestamp == clock.now
    assert entry.action == "question_asked"
    assert entry.phase == "analysis"
    assert entry.details == "Which zone\nare the times in?"
    first = session.history[0]
    assert (first.action, first.phase, first.details) == ("session_created", "analysis", None)


def test_times_never_go_back_even_if_the_clock_does(
    manager: SessionManager, clock: FakeClock, base: Path
) -> None:
    session = manager.create()
    clock.advance(100)
    manager.add_history("later")
    clock.advance(-500)

    manager.add_history("earlier by the clock")

    times = [entry.timestamp for entry in on_disk(base, session).history]
    assert times == sorted(times)
    assert session.updated_at == times[-1] == times[-2]
