"""What only a database has: transactions that end in another order than they began."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.settings.webhooks import Webhook
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreUnavailable
from agentforge_sessions.fleet.postgres.sessions.receivers import PostgresReceiver
from agentforge_sessions.fleet.postgres.sessions.session_feed import BEGINNING, PostgresFeed
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext, SessionManager
from agentforge_sessions.harness.feed_port import Feed, ReceiverState
from agentforge_sessions.harness.views.session_page import InvalidCursor
from agentforge_sessions.integrations.observers.delivery import Round, WebhookResponse
from agentforge_sessions.integrations.observers.webhook_observer import WebhookObserver
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender
from tests.support.promptness import PATIENCE_S

_LATE = """
insert into agentforge.session_history (session_id, number, entry)
select session_id, 2, replace(entry, 'session_created', 'late') from agentforge.session_history
where session_id = %s
"""
_GROWN = """
update agentforge.sessions set n_history = 2, size_bytes = (
    select sum(octet_length(entry)) from agentforge.session_history where session_id = id)
where id = %s
"""


def settled(sender: WebhookSender) -> int:
    """Deliver until no transaction of another test is in the way; return how many were taken."""
    found = sender.deliver()
    delivered = found.delivered
    while found.lags:
        found = sender.deliver()
        delivered += found.delivered
    return delivered


def take(feed: Feed, *, whole: bool = True) -> list[tuple[str | None, int]]:
    """Return what a feed has, passed; all of it, once no transaction is in the way."""
    every = list(feed.look())
    while whole and feed.lags:
        every = list(feed.look())
    found = []
    for one in every:
        feed.passed(one)
        if one.is_last:
            found.append((one.event.session_id, one.number))
    return found


def test_what_a_transaction_commits_late_is_not_passed_over(database: Database, base: Path) -> None:
    store = PostgresStore(database, base)
    first = SessionManager(store).create().session_id
    feed = store.open_feed()
    assert take(feed) == [(first, 1)]
    with database.transaction() as slow:
        slow.execute(_LATE, (first,))
        slow.execute(_GROWN, (first,))
        second = SessionManager(store).create().session_id
        assert take(feed, whole=False) == [], "what is committed waits for what may come before it"
        assert feed.lags
    assert take(feed) == [(first, 2), (second, 1)]
    assert not feed.lags


def test_saves_are_in_the_order_of_their_transactions_when_their_numbers_get_a_digit(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    manager = SessionManager(store)
    session_id = manager.create().session_id
    manager.add_history("once more")
    with database.transaction() as connection:
        connection.execute(
            "update agentforge.session_history set saved_by = (8 + number)::text::xid8"
        )
    assert take(store.open_feed()) == [(session_id, 1), (session_id, 2)]


def test_of_an_aborted_transaction_nothing_is_told_and_nothing_waits(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    first = SessionManager(store).create().session_id
    feed = store.open_feed()
    assert take(feed) == [(first, 1)]
    try:
        with database.transaction() as slow:
            slow.execute(_LATE, (first,))
            raise KeyError
    except KeyError:
        pass
    assert take(feed) == []
    assert not feed.lags


def test_a_batch_is_no_end(database: Database, base: Path) -> None:
    store = PostgresStore(database, base)
    manager = SessionManager(store)
    manager.create()
    with manager.changes():
        for number in range(1_100):
            manager.add_history(f"note{number}")
    assert len(take(store.open_feed())) == 1_101


def damage(database: Database, session_id: str) -> str:
    """Make the rows of a session unreadable; return the statement that mends them."""
    change = "update agentforge.session_history set entry = {} where session_id = %s and number = 1"
    with database.connection() as connection:
        connection.execute(change.format("'!' || entry").encode(), (session_id,))
    return change.format("substr(entry, 2)")


def test_a_session_that_can_not_be_read_is_given_once_it_can(
    database: Database, base: Path
) -> None:
    """What comes behind it is not held up meanwhile, and its place goes with the cursor."""
    store = PostgresStore(database, base)
    first, second = SessionManager(store), SessionManager(store)
    damaged, whole = first.create().session_id, second.create().session_id
    first.add_history("a")
    mend = damage(database, damaged)
    feed = store.open_feed()
    assert take(feed) == [(whole, 1)]
    second.add_history("b")
    assert take(feed) == [(whole, 2)]
    cursor = feed.cursor
    with database.connection() as connection:
        connection.execute(mend.encode(), (damaged,))
    later = SessionManager(store)
    later.open(damaged)
    later.add_history("c")
    second.add_history("d")
    again = store.open_feed(cursor)
    again.passed(next(again.look()))
    rest = [(damaged, 2), (damaged, 3), (whole, 3)]
    assert take(store.open_feed(again.cursor)) == rest
    assert take(store.open_feed(cursor)) == [(damaged, 1), *rest]
    assert take(again) == rest
    assert take(again) == []
    assert "+" not in again.cursor


def test_a_damaged_session_that_is_removed_is_looked_for_no_more(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    damaged, whole = SessionManager(store).create().session_id, SessionManager(store)
    whole_id = whole.create().session_id
    damage(database, damaged)
    feed = store.open_feed()
    assert take(feed) == [(whole_id, 1)]
    assert "+" in feed.cursor
    store.delete(damaged)
    assert take(feed) == []
    assert "+" not in feed.cursor


def test_what_was_left_out_is_kept_for_a_receiver_when_the_session_is_removed(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    receiver = PostgresReceiver(database, "team")
    damaged, whole = SessionManager(store).create().session_id, SessionManager(store)
    whole.create()
    mend = damage(database, damaged)
    feed = store.open_feed()
    take(feed)
    with receiver.held():
        receiver.keep(ReceiverState(cursor=feed.cursor, events=("*",)).encoded())
    with database.connection() as connection:
        connection.execute(mend.encode(), (damaged,))
    store.delete(damaged)
    assert list(receiver.left()) == [damaged]


def test_a_store_that_is_lost_in_the_middle_of_a_look_loses_nothing(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    first, second = (SessionManager(store).create().session_id for _ in range(2))
    lost = [True]

    def load(session_id: str) -> SessionContext | None:
        if lost:
            lost.pop()
            raise StoreUnavailable(store=database.name, reason="the connection was closed")
        return store.load(session_id)

    feed = PostgresFeed(database, load, BEGINNING)
    with pytest.raises(StoreUnavailable):
        take(feed)
    assert take(feed) == [(first, 1), (second, 1)]


def test_a_cursor_of_another_cluster_is_refused(database: Database, base: Path) -> None:
    """A database that was restored elsewhere counts its transactions anew."""
    store = PostgresStore(database, base)
    with pytest.raises(InvalidCursor):
        store.open_feed(f"p1.{2**50}..0")


def test_a_receiver_whose_cursor_is_of_another_cluster_begins_anew(
    database: Database, base: Path
) -> None:
    store = PostgresStore(database, base)
    sender = WebhookSender(
        Webhook(name="team", url="https://example.com/", events=("session.created",)),
        store,
        log=get_logger("agentforge.observers"),
        environment={},
        send=lambda *_, **__: WebhookResponse(status=204),
    )
    receiver = store.receiver("team")
    with receiver.held():
        receiver.keep(ReceiverState(cursor=f"p1.{2**50}..0").encoded())
    assert settled(sender) == 0
    SessionManager(store).create()
    assert settled(sender) == 1


def test_a_receiver_whose_connection_was_lost_keeps_nothing_over_its_successor(
    database: Database, base: Path
) -> None:
    one, other = PostgresReceiver(database, "team"), PostgresReceiver(database, "team")
    refused = threading.Event()
    try:
        with one.held() as free:
            assert free
            with database.connection() as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' "
                    "and pid <> pg_backend_pid() and database = "
                    "(select oid from pg_database where datname = current_database())"
                )
            with other.held(timeout_s=PATIENCE_S) as too:
                assert too
                other.keep(b"{}\n")
            one.keep(b"lost\n")
    except Exception:
        refused.set()
    assert refused.is_set()
    assert other.read() == b"{}\n"


def test_all_machines_tell_of_all_sessions_each_once(database: Database, tmp_path: Path) -> None:
    sent: list[str] = []

    def send(*_: object, **__: object) -> WebhookResponse:
        sent.append(threading.current_thread().name)
        return WebhookResponse(status=204)

    def sender(machine: str) -> WebhookSender:
        return WebhookSender(
            Webhook(name="team", url="https://example.com/", events=("session.created",)),
            PostgresStore(database, tmp_path / machine),
            log=get_logger("agentforge.observers"),
            environment={},
            send=send,
        )

    sender("one").begin()
    for machine in ("one", "two", "three"):
        SessionManager(PostgresStore(database, tmp_path / machine)).create()
    assert settled(sender("two")) == 3
    assert settled(sender("three")) == 0
    assert len(sent) == 3


def test_what_a_pruned_session_had_to_tell_is_told(database: Database, base: Path) -> None:
    store = PostgresStore(database, base)
    sent: list[bytes] = []

    def send(_: object, body: bytes, *__: object, **___: object) -> WebhookResponse:
        sent.append(body)
        return WebhookResponse(status=204)

    sender = WebhookSender(
        Webhook(name="team", url="https://example.com/", events=("session.completed",)),
        store,
        log=get_logger("agentforge.observers"),
        environment={},
        send=send,
    )
    sender.begin()
    manager = SessionManager(store)
    session_id = manager.create().session_id
    manager.complete()
    assert manager.cleanup_old_sessions(0) == [session_id]
    assert [one.session_id for one in sender.backlog().deliveries] == [session_id]
    assert sender.deliver().delivered == 1
    assert session_id.encode() in sent[0]
    assert sender.backlog().deliveries == ()


def test_the_end_of_a_process_waits_for_what_can_not_be_read_yet(
    database: Database, base: Path
) -> None:
    """A transaction of somebody else, which ends a moment later, keeps no event from being told."""
    store = PostgresStore(database, base)
    sent = threading.Event()
    looked = threading.Event()

    class Looking(WebhookSender):
        def deliver(self, **more: Any) -> Round:
            found = super().deliver(**more)
            looked.set()
            return found

    def send(*_: object, **__: object) -> WebhookResponse:
        sent.set()
        return WebhookResponse(status=204)

    sender = Looking(
        Webhook(name="team", url="https://example.com/", events=("session.created",)),
        store,
        log=get_logger("agentforge.observers"),
        environment={},
        send=send,
    )
    observer = WebhookObserver(sender, log=get_logger("agentforge.observers"))
    with database.transaction() as slow:
        slow.execute("select pg_current_xact_id()")
        SessionManager(store, observers=[observer]).create()
        assert looked.wait(PATIENCE_S)
        assert not sent.is_set()
    observer.close(PATIENCE_S)
    assert sent.is_set()
    assert sender.backlog().deliveries == ()
