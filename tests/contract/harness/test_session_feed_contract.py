"""One suite for every implementation of the port to the feed of a store and its receivers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.harness import (
    InvalidSessionId,
    LocalSessions,
    SessionContext,
    SessionManager,
)
from agentforge_sessions.harness.domain.history_events import SessionForked
from agentforge_sessions.harness.domain.session_observer import NoteRecorded
from agentforge_sessions.harness.feed_port import Feed, ReceiverState
from agentforge_sessions.harness.views.entry_events import EntryEvent
from agentforge_sessions.harness.views.session_page import InvalidCursor
from tests.support.clock import START, FakeClock
from tests.support.sessions import session_id as an_id

S, OTHER = an_id(1), an_id(2)
Open = Callable[[], LocalSessions]


def begin(sessions: LocalSessions, session_id: str = S) -> SessionContext:
    session = SessionContext.create("talk", "red", session_id=session_id, now=START)
    sessions.save(session)
    return session


def note(sessions: LocalSessions, session: SessionContext, *actions: str) -> None:
    for action in actions:
        session.add_history(action)
    sessions.save(session)


def said(events: list[EntryEvent]) -> list[str]:
    notes = {one.id: one.event.what for one in events if isinstance(one.event.what, NoteRecorded)}
    return [notes[one.id].action if one.id in notes else one.event.name for one in events]


def look(feed: Feed) -> list[EntryEvent]:
    """Return what a feed has, once no transaction of another test is in the way."""
    while True:
        found = list(feed.look())
        if not feed.lags:
            return found


def take(feed: Feed) -> list[EntryEvent]:
    """Return what a feed has, passed."""
    found = look(feed)
    for one in found:
        feed.passed(one)
    return found


def test_what_was_saved_is_found_once_in_the_order_of_its_session(opened: Open) -> None:
    sessions = opened()
    feed = opened().open_feed()
    session = begin(sessions)
    note(sessions, session, "a", "b")
    assert said(take(feed)) == ["session.created", "a", "b"]
    assert take(feed) == []
    note(sessions, session, "c")
    assert said(take(feed)) == ["c"]


def test_a_cursor_is_where_another_process_goes_on(opened: Open) -> None:
    sessions = opened()
    first, second = begin(sessions), begin(sessions, OTHER)
    feed = opened().open_feed()
    take(feed)
    kept = feed.cursor
    note(sessions, second, "a")
    note(sessions, first, "b")
    assert sorted(said(take(opened().open_feed(kept)))) == ["a", "b"]
    assert sorted(said(take(feed))) == ["a", "b"]
    assert take(opened().open_feed(feed.cursor)) == []


def test_a_cursor_stands_behind_what_was_passed_and_not_behind_what_was_seen(opened: Open) -> None:
    sessions = opened()
    session = begin(sessions)
    note(sessions, session, "a", "b", "c")
    feed = opened().open_feed()
    looking = iter(look(feed))
    for one in looking:
        feed.passed(one)
        if said([one]) == ["a"]:
            break
    assert said([next(looking)]) == ["b"]
    assert said(take(opened().open_feed(feed.cursor))) == ["b", "c"]


def test_an_entry_that_says_two_things_is_passed_with_the_second(opened: Open) -> None:
    manager = SessionManager(opened(), clock=FakeClock())
    manager.create(initial_phase="red")
    feed = opened().open_feed(opened().end_of_feed())
    take(feed)
    manager.advance_phase("green")
    first, second = look(feed)
    assert (first.event.name, second.event.name) == ("phase.advanced", "session.checkpoint")
    assert first.id != second.id
    feed.passed(first)
    assert said(take(opened().open_feed(feed.cursor))) == ["phase.advanced", "session.checkpoint"]
    feed.passed(second)
    assert take(opened().open_feed(feed.cursor)) == []


def test_the_same_event_has_the_same_id_and_the_same_fields_each_time(opened: Open) -> None:
    clock = FakeClock()
    manager = SessionManager(opened(), clock=clock)
    manager.create(initial_phase="red")
    manager.retry_phase("why")
    manager.record("noted", tokens=7)
    manager.advance_phase("green")
    first = take(opened().open_feed())
    note(opened(), opened().load(manager.store.list_sessions()[0]) or begin(opened()), "later")
    again = take(opened().open_feed())
    assert again[: len(first)] == first
    assert len({one.id for one in again}) == len(again)
    found = {one.event.name: one.event for one in first}
    assert found["session.recorded"].attempt == 2
    assert found["session.recorded"].to_dict()["data"] == {"action": "noted", "tokens": 7}
    assert (found["phase.advanced"].phase, found["phase.advanced"].attempt) == ("green", 1)


def test_what_observers_are_given_is_what_the_feed_says(opened: Open) -> None:
    class Seen:
        def __init__(self) -> None:
            self.events: list[dict[str, object]] = []

        def on_event(self, event: object) -> None:
            self.events.append(event.to_dict())  # type: ignore[attr-defined]

    seen = Seen()
    manager = SessionManager(opened(), clock=FakeClock(), observers=[seen])
    manager.create("tdflow", "red", token_budget=10)
    manager.retry_phase("once more")
    manager.record("noted", tokens=3)
    manager.advance_phase("green")
    manager.checkpoint_session()
    manager.pause("lunch")
    manager.resume()
    with manager.changes():
        manager.add_history("one")
        manager.advance_phase("blue")
        manager.add_history("two")
    manager.complete()
    told = [one.event.to_dict() for one in take(opened().open_feed())]
    assert [{**one, "timestamp": None} for one in told] == [
        {**one, "timestamp": None} for one in seen.events
    ]


def test_the_copied_entries_of_a_fork_are_not_told_again(opened: Open) -> None:
    sessions = opened()
    parent = begin(sessions)
    note(sessions, parent, "a")
    feed = opened().open_feed(opened().end_of_feed())
    take(feed)
    child = SessionContext.create(session_id=OTHER, now=START + timedelta(seconds=1))
    child.history[:] = parent.history
    child.add_event(SessionForked(parent_id=S, parent_entries=2, attempt=4, snapshot="s"))
    sessions.save(child)
    note(sessions, child, "b")
    found = take(feed)
    assert said(found) == ["session.forked", "b"]
    assert {one.event.attempt for one in found} == {4}
    assert said(take(opened().open_feed())).count("a") == 1


def test_the_feed_of_one_session_has_no_other(opened: Open) -> None:
    sessions = opened()
    first, second = begin(sessions), begin(sessions, OTHER)
    feed = opened().open_feed(session_id=S)
    note(sessions, second, "not this")
    assert said(take(feed)) == ["session.created"]
    note(sessions, first, "a")
    assert said(take(opened().open_feed(feed.cursor, session_id=S))) == ["a"]
    assert opened().delete(S)
    assert take(feed) == []


@pytest.mark.parametrize(
    "cursor", ["", "x", "f1.", "f1.AAAA", "p1.1.x.1", "p1.-1..0", "f1." + "A" * 9, "p1.1..0\n"]
)
def test_what_is_no_cursor_is_refused(opened: Open, cursor: str) -> None:
    for session_id in (None, S):
        with pytest.raises(InvalidCursor):
            opened().open_feed(cursor, session_id=session_id)


def test_a_session_id_from_outside_is_judged(opened: Open) -> None:
    with pytest.raises(InvalidSessionId):
        opened().open_feed(session_id="../x")
    with pytest.raises(InvalidSessionId):
        opened().entry_events("../x", 0)


def test_the_events_of_a_session_are_read_from_any_entry_on(opened: Open) -> None:
    sessions = opened()
    session = begin(sessions)
    note(sessions, session, "a", "b")
    assert said(opened().entry_events(S, 2) or []) == ["b"]
    assert opened().entry_events(S, 99) == []
    assert opened().entry_events(OTHER, 0) is None


# -------------------------------------------------------------------------------------- receivers


def test_one_process_holds_a_receiver(opened: Open) -> None:
    one, other = opened().receiver("team"), opened().receiver("team")
    with one.held() as free:
        assert free
        with other.held() as too:
            assert not too
        with opened().receiver("else").held() as else_free:
            assert else_free
    with other.held() as free:
        assert free


def test_what_is_kept_is_read_by_all_and_kept_by_the_holder_alone(opened: Open) -> None:
    one = opened().receiver("team")
    assert one.read() is None
    with one.held():
        one.keep(b'{"one": 1}\n')
        one.keep(b'{"two": 2}\n')
    assert opened().receiver("team").read() == b'{"two": 2}\n'
    with pytest.raises(WriteError):
        one.keep(b"{}")
    assert opened().receiver("else").read() is None


def test_a_receiver_that_is_forgotten_is_as_one_that_never_was(opened: Open) -> None:
    sessions = opened()
    begin(sessions)
    assert opened().receivers() == []
    for name in ("team", "else"):
        one = opened().receiver(name)
        with one.held():
            one.keep(ReceiverState(cursor=opened().open_feed().cursor, events=("*",)).encoded())
    assert sessions.delete(S)
    one = opened().receiver("team")
    assert (list(one.left()), opened().receivers()) == ([S], ["else", "team"])
    with one.held():
        one.forget()
    assert (one.read(), one.left(), opened().receivers()) == (None, {}, ["else"])
    assert list(opened().receiver("else").left()) == [S]
    with one.held() as free:
        assert free
        one.keep(b"{}\n")
    assert opened().receivers() == ["else", "team"]


def test_a_removed_session_leaves_what_a_receiver_has_not_had(opened: Open) -> None:
    sessions = opened()
    session = begin(sessions)
    receiver = opened().receiver("team")
    with receiver.held():
        feed = opened().open_feed()
        note(sessions, session, "a")
        take(feed)
        state = ReceiverState(cursor=feed.cursor, events=("session.recorded",))
        receiver.keep(state.encoded())
    note(sessions, session, "b", "c")
    session.apply("pause")
    sessions.save(session)
    begin(sessions, OTHER)
    assert sessions.delete(OTHER)
    assert sessions.delete(S)
    left = opened().receiver("team").left()
    assert list(left) == [S]
    assert [event["data"]["action"] for _, _, event in left[S]] == ["b", "c"]  # type: ignore[index]
    assert [number for number, _, _ in left[S]] == [3, 4]
    with receiver.held():
        receiver.forget_left(S)
        receiver.forget_left(S)
    assert opened().receiver("team").left() == {}
