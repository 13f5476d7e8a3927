"""Knowing how all sessions stand: read once, then only what changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.entrypoints.ui import session_watch
from agentforge_sessions.entrypoints.ui.session_watch import SessionWatch
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.steps.program_sessions import led
from tests.support.recorded_programs import begin_program


class Reports:
    """Reports changes of directories when a test says so."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[], None]] = {}

    @contextmanager
    def watching(self, path: Path, on_change: Callable[[], None]) -> Iterator[None]:
        self.listeners[path.name] = on_change
        try:
            yield
        finally:
            del self.listeners[path.name]


class Counting(SessionStore):
    """Sessions on disk, and how often each was read whole."""

    loads = 0
    listings = 0

    def load(self, session_id: str) -> object:  # type: ignore[override]
        self.loads += 1
        return super().load(session_id)

    def summaries(self, *given: object) -> object:  # type: ignore[override]
        self.listings += 1
        return super().summaries(*given)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


def begin(store: SessionStore, goal: str = "x") -> SessionManager:
    manager = SessionManager(SessionStore(store.base_path))
    manager.create(goal=goal)
    return manager


def id_of(manager: SessionManager) -> str:
    assert manager.current_session is not None
    return manager.current_session.session_id


def test_only_what_was_reported_is_read_again(store: Counting) -> None:
    one, other = begin(store), begin(store)
    reports, rung = Reports(), []
    watch = SessionWatch(store, watcher=reports, on_change=lambda: rung.append(1))
    assert len(watch.rows()) == 2
    watch.look()  # what may have changed before it was watched
    loads = store.loads
    assert watch.look() == frozenset()
    assert (store.loads, store.listings) == (loads, 1)
    one.record_tokens(5)
    reports.listeners[id_of(one)]()
    assert rung == [1]
    assert watch.look() == {id_of(one)}
    assert store.loads == loads + 1
    spent = {row.session_id: row.head.tokens_used for row in watch.rows()}
    assert spent == {id_of(one): 5, id_of(other): 0}
    watch.close()
    assert reports.listeners == {}


def test_sessions_that_are_begun_and_deleted_come_and_go(store: Counting) -> None:
    reports = Reports()
    watch = SessionWatch(store, watcher=reports)
    assert watch.rows() == []
    one = begin(store)
    reports.listeners[store.base_path.name]()
    assert watch.look() == {id_of(one)}
    name = id_of(one)
    one.delete(name)
    reports.listeners[store.base_path.name]()
    assert watch.look() == {name}
    assert watch.rows() == []


def test_a_missed_change_is_seen_when_everything_is_looked_at_again(store: Counting) -> None:
    one, now = begin(store), [0.0]
    watch = SessionWatch(store, watcher=Reports(), monotonic=lambda: now[0])
    watch.rows()
    watch.look()
    one.complete()
    assert watch.look() == frozenset()
    now[0] += session_watch.LOOK_S
    assert watch.look() == {id_of(one)}


def test_a_run_that_was_cut_off_is_seen_though_no_file_changed(store: Counting) -> None:
    one = begin(store)
    (store.base_path / id_of(one) / "workflow.yaml").write_text("{}")
    watch = SessionWatch(store, watcher=Reports())
    lock = store.run_lock(id_of(one), "workflow.yaml", timeout_s=0)
    try:
        lock.acquire()
        (row,) = watch.rows()
        assert not row.interrupted
    finally:
        lock.release()
    assert id_of(one) in watch.look()
    (row,) = watch.rows()
    assert row.interrupted


def test_a_program_that_died_has_what_it_spent_after_the_last_write_of_its_file(
    store: Counting,
) -> None:
    session_id = begin_program(store)
    watch = SessionWatch(store, watcher=Reports())
    with led(store, session_id) as log:
        watch.rows()
        watch.look()
        spent, now = Amount(50), log.clock()
        log.record("a#1", 0, codec="json", body=b"1", spent=spent, started=now, took_us=0)
    assert session_id in watch.look()
    (row,) = watch.rows()
    assert (row.interrupted, row.head.tokens_used) == (True, 50)


def test_a_store_without_directories_is_asked_for_what_changed_last(store: Counting) -> None:
    one, _ = begin(store), begin(store)
    watch = SessionWatch(store, watcher=None)
    assert len(watch.rows()) == 2
    one.record_tokens(7)
    assert watch.look() == {id_of(one)}
    assert watch.look() == frozenset()
    assert store.loads == 0


def test_what_went_from_a_store_without_directories_is_missed_before_long(store: Counting) -> None:
    one, other, now = begin(store), begin(store), [0.0]
    watch = SessionWatch(store, watcher=None, monotonic=lambda: now[0])
    watch.rows()
    gone = id_of(one)
    one.delete(gone)
    other.record_tokens(7)
    assert watch.look() == {id_of(other)}
    now[0] += session_watch.NAMES_S
    assert watch.look() == {gone}
    assert [row.session_id for row in watch.rows()] == [id_of(other)]


def test_goals_are_read_once_for_each_revision(store: Counting) -> None:
    begin(store, "a goal")
    watch = SessionWatch(store, watcher=None)
    (row,) = watch.with_goals(watch.rows())
    assert row.goal == "a goal"
