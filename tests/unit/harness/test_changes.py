"""Several changes in one save: all of them, or none; what can't be among them is refused."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.tracing import using
from agentforge_sessions.harness import (
    InvalidSession,
    InvalidStateTransition,
    NoActiveSession,
    SessionConflict,
    SessionContext,
    SessionManager,
    SessionState,
    SessionStore,
    WriteError,
)
from agentforge_sessions.harness.domain.history_events import PhaseSucceeded
from agentforge_sessions.harness.domain.session_observer import NoteRecorded, RunStarted
from agentforge_sessions.harness.errors import ChangesUnsaved
from tests.support.channels import MemoryChannel
from tests.support.executors import FakeExecutor
from tests.support.filesystem import FaultyFileSystem, every_call_from
from tests.support.ids import sid
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.observers import Remembering
from tests.support.tracing import Recorded


def stored(manager: SessionManager, session: SessionContext) -> SessionContext:
    found = SessionStore(manager.store.base_path).load(session.session_id)
    assert found is not None
    return found


def much(manager: SessionManager) -> None:
    """Change all that a block may change."""
    manager.describe(title="t", tags=["a"], metadata={"m": 1})
    manager.set_workflow_state({"step": 1})
    manager.record_tokens(90_000)
    manager.extend_budget(1_000)
    manager.add_artifact("a.py", "created")
    manager.add_history("noted")
    manager.record(PhaseSucceeded(attempt=1), tokens=5, artifacts=[("b.py", "modified")])
    manager.retry_phase("again")
    manager.advance_phase("green")
    manager.checkpoint_session()
    manager.pause("a while")
    manager.resume()


def test_many_changes_are_one_save(manager: SessionManager, fs: FaultyFileSystem) -> None:
    session = manager.create("tdflow", "red")
    before = len([call for call in fs.trace if call.operation == "rename"])
    with manager.changes():
        much(manager)
        assert stored(manager, session).revision == 1
    assert len([call for call in fs.trace if call.operation == "rename"]) == before + 1
    assert session.revision == 2
    assert stored(manager, session) == session
    assert len(session.history) == 11


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_raises_changes_nothing(
    manager: SessionManager, error: type[BaseException]
) -> None:
    session = manager.create("tdflow", "red", title="first", metadata={"a": 1})
    before = copy.deepcopy(session)
    with capture_logs() as log, pytest.raises(error), manager.changes():  # noqa: PT012
        much(manager)
        session.goal = "another"
        manager.complete()
        raise error
    assert session == before
    assert manager.current_session is session
    assert stored(manager, session) == before
    assert log == []
    manager.add_history("goes on")
    assert session.revision == 2


def test_a_block_that_changes_nothing_saves_nothing(manager: SessionManager) -> None:
    session = manager.create()
    with manager.changes():
        assert manager.can_continue()
    assert session.revision == 1


def test_what_is_changed_by_hand_belongs_to_the_block(manager: SessionManager) -> None:
    session = manager.create()
    with manager.changes():
        session.goal = "by hand"
    assert stored(manager, session).goal == "by hand"
    with pytest.raises(InvalidSession), manager.changes():  # noqa: PT012
        manager.add_history("noted")
        session.attempt_number = -1
    assert session == stored(manager, session)
    assert (session.attempt_number, len(session.history)) == (1, 1)


def test_a_refused_change_leaves_the_others(manager: SessionManager) -> None:
    session = manager.create()
    with manager.changes():
        manager.add_history("first")
        with pytest.raises(InvalidSession):
            manager.record_tokens(0)
        with pytest.raises(InvalidStateTransition):
            manager.resume()
        manager.add_history("second")
    assert [one.action for one in stored(manager, session).history[1:]] == ["first", "second"]


def test_an_inner_block_saves_nothing_and_takes_back_its_own(manager: SessionManager) -> None:
    session = manager.create()
    with capture_logs() as log, manager.changes():
        manager.add_history("outer")
        with pytest.raises(ValueError), manager.changes():  # noqa: PT012
            manager.record("inner")
            manager.describe(title="inner")
            raise ValueError
        with manager.changes():
            manager.record("kept")
        assert stored(manager, session).revision == 1
    assert session.revision == 2
    assert [one.action for one in stored(manager, session).history[1:]] == ["outer", "kept"]
    assert [one.get("action") for one in log] == ["outer", "kept"]


def test_the_log_has_all_of_it_after_the_save(manager: SessionManager) -> None:
    manager.create("tdflow", "red")
    with capture_logs() as log, manager.changes():
        much(manager)
        assert log == []
    said = [one["event"] for one in log]
    assert said.count("session.checkpoint") == 3
    for event in ("session.described", "session.budget.warning", "phase.advanced"):
        assert said.count(event) == 1
    assert said.count("session.state_changed") == 2
    assert len({one["entry"] for one in log if one["event"] == "session.checkpoint"}) == 3


def test_observers_see_nothing_before_the_one_save_and_all_of_it_after_it(
    store: SessionStore,
) -> None:
    seen = Remembering()
    manager = SessionManager(store, observers=[seen])
    session = manager.create("tdflow", "red")
    seen.events.clear()
    saved: list[int] = []
    seen.at_each = lambda _: saved.append(stored(manager, session).revision)
    with manager.changes():
        much(manager)
        manager.announce(RunStarted(workflow="w", resumed=False))
        assert seen.events == []
    assert set(saved) == {session.revision} == {2}
    assert seen.names == [
        "session.described",
        "budget.extended",
        "session.recorded",
        "phase.succeeded",
        "session.checkpoint",
        "phase.retried",
        "phase.advanced",
        "session.checkpoint",
        "session.checkpoint",
        "session.paused",
        "session.resumed",
        "session.budget.warning",
        "run.started",
    ]


def test_observers_see_nothing_of_a_block_that_fails(
    store: SessionStore, fs: FaultyFileSystem
) -> None:
    seen = Remembering()
    manager = SessionManager(store, observers=[seen])
    manager.create("tdflow", "red")
    seen.events.clear()
    with pytest.raises(ValueError), manager.changes():  # noqa: PT012
        much(manager)
        manager.announce(RunStarted(workflow="w", resumed=False))
        raise ValueError
    assert seen.events == []
    with pytest.raises(WriteError), manager.changes():  # noqa: PT012
        much(manager)
        fs.plan = every_call_from(0, errno.ENOSPC, ("writev",))
    assert seen.names == ["session.save_failed"]


def test_an_event_has_the_phase_and_the_tokens_of_its_own_change(store: SessionStore) -> None:
    seen = Remembering()
    manager = SessionManager(store, observers=[seen])
    manager.create("tdflow", "red")
    seen.events.clear()
    with manager.changes():
        manager.record("first", tokens=5)
        manager.retry_phase("again")
        with manager.changes():
            manager.record("second", tokens=7)
        with pytest.raises(ValueError), manager.changes():  # noqa: PT012
            manager.record("taken back", tokens=100)
            raise ValueError
        manager.advance_phase("green")
        manager.record("third")
    notes = [one for one in seen.events if isinstance(one.what, NoteRecorded)]
    told = [(one.to_dict()["data"], one.phase, one.attempt) for one in notes]
    assert told == [
        ({"action": "first", "tokens": 5}, "red", 1),
        ({"action": "second", "tokens": 7}, "red", 2),
        ({"action": "third", "tokens": 0}, "green", 1),
    ]


def test_tokens_are_counted_once_in_the_phase_that_spent_them(manager: SessionManager) -> None:
    session = manager.create("tdflow", "red")
    recorded = Recorded()
    with using(recorded.tracing), manager.changes():
        manager.record_tokens(5)
        with manager.changes():
            manager.record("noted", tokens=7)
        with pytest.raises(ValueError), manager.changes():  # noqa: PT012
            manager.record_tokens(100)
            raise ValueError
        manager.advance_phase("green")
        manager.record_tokens(11)
        session.token_budget.tokens_used += 1
    spent = recorded.metric("agentforge.session.tokens")
    assert spent == {("red",): 12, ("green",): 12}
    assert session.token_budget.tokens_used == 24


def test_a_conflict_at_the_end_takes_all_of_it_back(manager: SessionManager) -> None:
    session = manager.create()
    other = SessionManager(manager.store.base_path)
    other.open(session.session_id)
    before = copy.deepcopy(session)
    with pytest.raises(SessionConflict), manager.changes():  # noqa: PT012
        manager.add_history("mine")
        other.add_history("theirs")
    assert session == before
    manager.reload()
    assert [one.action for one in session.history[1:]] == ["theirs"]


def test_a_save_that_fails_takes_all_of_it_back(
    manager: SessionManager, fs: FaultyFileSystem
) -> None:
    session = manager.create()
    before = copy.deepcopy(session)
    with pytest.raises(WriteError), manager.changes():  # noqa: PT012
        much(manager)
        fs.plan = every_call_from(0, errno.ENOSPC, ("writev",))
    assert session == before == stored(manager, session)


def test_a_session_that_ended_meanwhile_stays_as_it_ended(manager: SessionManager) -> None:
    session = manager.create()
    other = SessionManager(manager.store.base_path)
    other.open(session.session_id)
    with pytest.raises(SessionConflict), manager.changes():  # noqa: PT012
        manager.add_history("mine")
        other.complete()
    assert stored(manager, session).state is SessionState.COMPLETED


def test_a_block_that_is_killed_at_any_system_call_is_there_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    seen = set()
    for death in range(100):
        base = tmp_path / str(death)
        session_id = SessionManager(base).create("tdflow", "red").session_id
        before = SessionStore(base).load(session_id)
        fs = MortalFileSystem()
        manager = SessionManager(SessionStore(base, fs=fs))
        session = manager.open(session_id)
        fs.death = fs.changes + death
        try:
            with manager.changes():
                much(manager)
        except Killed:
            pass
        found = SessionStore(base).load(session_id)
        assert found is not None
        whole = found.revision == 2 and len(found.history) == 11
        assert whole or found == before
        seen.add((fs.dead, whole))
        if not fs.dead:
            assert found == session
            break
    assert seen == {(True, False), (True, True), (False, True)}


REFUSED: dict[str, Callable[[SessionManager], object]] = {
    "create": lambda manager: manager.create(),
    "load": lambda manager: manager.load(sid("x")),
    "open": lambda manager: manager.open(sid("x")),
    "resume": lambda manager: manager.resume(sid("x")),
    "reload": lambda manager: manager.reload(),
    "release": lambda manager: manager.release(),
    "save": lambda manager: manager.save(),
    "delete": lambda manager: manager.delete(manager.current_session.session_id),  # type: ignore[union-attr]
    "run_phase": lambda manager: manager.run_phase("pass"),
    "ask": lambda manager: manager.ask([]),
    "rewind": lambda manager: manager.rewind(1),
    "begin_phase_again": lambda manager: manager.begin_phase_again("red"),
    "fork": lambda manager: manager.fork(1),
    "prepare_workspace": lambda manager: manager.prepare_workspace(),
}


@pytest.mark.parametrize("operation", REFUSED)
def test_what_can_be_no_part_of_one_save_is_refused(store: SessionStore, operation: str) -> None:
    manager = SessionManager(store, executor=FakeExecutor(), channel=MemoryChannel())
    session = manager.create()
    with manager.changes():
        manager.add_history("first")
        with pytest.raises(ChangesUnsaved, match="end the block first") as caught:
            REFUSED[operation](manager)
        assert caught.value.session_id == session.session_id
    assert stored(manager, session) == session
    assert [one.action for one in session.history[1:]] == ["first"]


def test_another_session_may_be_deleted_within_a_block(manager: SessionManager) -> None:
    other = manager.create().session_id
    manager.release()
    manager.create()
    with manager.changes():
        manager.add_history("noted")
        assert manager.delete(other)
    assert not manager.exists(other)


def test_without_a_session_there_is_nothing_to_change(manager: SessionManager) -> None:
    with pytest.raises(NoActiveSession), manager.changes():
        pass
