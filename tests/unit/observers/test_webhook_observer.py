"""What a receiver is told of, in the background, and what stays for the next process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.settings.webhooks import Webhook
from agentforge_sessions.fleet.postgres.errors import StoreUnavailable
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.integrations.observers.delivery import Round, signature
from agentforge_sessions.integrations.observers.webhook_observer import (
    SenderThread,
    WebhookObserver,
)
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender
from tests.support.promptness import PATIENCE_S, wait_until
from tests.support.webhook_receiver import OK, answers, receiving, status

LOG = get_logger("agentforge.observers")


def sender(base: Path, url: str, *events: str) -> WebhookSender:
    webhook = Webhook(
        name="team", url=url, events=events or ("session.*",), secret_env="S", timeout_s=PATIENCE_S
    )
    return WebhookSender(webhook, SessionStore(base), log=LOG, environment={"S": "k"})


def observer(base: Path, url: str, *events: str) -> WebhookObserver:
    return WebhookObserver(sender(base, url, *events), log=LOG)


def waiting(base: Path, *events: str) -> int:
    return len(sender(base, "https://example.com/", *events).backlog().deliveries)


def test_the_events_that_a_receiver_wants_reach_it_signed(base: Path) -> None:
    with receiving() as receiver:
        told = observer(base, receiver.url, "session.paused", "session.c*d")
        manager = SessionManager(base, observers=[told])
        session = manager.create(goal="not told")
        manager.pause("for lunch")
        manager.add_history("noted")
        manager.resume()
        manager.complete()
        told.close(PATIENCE_S)

    bodies = [json.loads(one.body) for one in receiver.received]
    assert [one["type"] for one in bodies] == [
        *("session.created", "session.paused", "session.completed"),
    ]
    assert {one["session_id"] for one in bodies} == {session.session_id}
    assert bodies[1]["data"]["reason"] == "for lunch"
    for one in receiver.received:
        known = one.headers
        assert known["webhook-signature"] == signature(
            "k", known["webhook-id"], known["webhook-timestamp"], one.body
        )
    assert waiting(base) == 0


def test_the_work_never_waits_for_a_receiver(base: Path) -> None:
    answer = threading.Event()

    def behave(connection: socket.socket, _: int) -> None:
        answer.wait(PATIENCE_S)
        connection.sendall(OK)

    with receiving(behave) as receiver:
        told = observer(base, receiver.url)
        manager = SessionManager(base, observers=[told])
        manager.create()
        wait_until(lambda: receiver.received)
        manager.complete()  # while the first delivery is under way
        assert waiting(base) == 2, "each is on disk until it was taken"
        answer.set()
        told.close(PATIENCE_S)
    assert waiting(base) == 0


def test_what_a_dead_receiver_did_not_take_stays_for_the_next_process(base: Path) -> None:
    with receiving(answers(status(500))) as receiver, capture_logs() as logs:
        told = observer(base, receiver.url)
        SessionManager(base, observers=[told]).create()
        told.close(PATIENCE_S)
        assert len(receiver.received) == 1
    [left] = [one for one in logs if one["event"] == "webhook.waiting"]
    assert (left["webhook"], left["log_level"]) == ("team", "warning")
    assert waiting(base) == 1


def test_the_end_waits_no_longer_than_it_is_given(base: Path) -> None:
    leave = threading.Event()

    def hang(connection: socket.socket, _: int) -> None:
        leave.wait(PATIENCE_S)

    with receiving(hang) as receiver:
        told = observer(base, receiver.url)
        SessionManager(base, observers=[told]).create()
        told.close(0.05)
        assert waiting(base) == 1
        leave.set()
        told.close(PATIENCE_S)


def left_by_another(base: Path, *events: str) -> str:
    """Have something happen that a receiver is to be told of, and nobody tell it."""
    sender(base, "https://example.com/", *events).begin()
    manager = SessionManager(base)
    session_id = manager.create().session_id
    manager.pause()
    return session_id


def test_a_run_delivers_what_an_earlier_process_left(base: Path) -> None:
    from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner
    from tests.support.executors import FakeExecutor

    session_id = left_by_another(base, "session.paused")
    with receiving() as receiver:
        told = observer(base, receiver.url, "session.paused")
        manager = SessionManager(base, executor=FakeExecutor(), observers=[told])
        WorkflowRunner(manager).start(
            Workflow(
                name="one",
                workflow_type="scripts",
                phases=[Phase(name="one", gate=Script(code="pass"))],
            )
        )
        wait_until(lambda: receiver.received)
        told.close(PATIENCE_S)
    assert [json.loads(one.body)["session_id"] for one in receiver.received] == [session_id]


def test_opening_a_session_delivers_what_an_earlier_process_left(base: Path) -> None:
    left_by_another(base, "session.paused")
    other = SessionManager(base).create().session_id
    with receiving() as receiver:
        told = observer(base, receiver.url, "session.paused")
        SessionManager(base, observers=[told]).open(other)
        wait_until(lambda: receiver.received)
        told.close(PATIENCE_S)
    assert waiting(base, "session.paused") == 0


def test_what_stands_in_no_history_is_tried_once_and_its_loss_is_logged(base: Path) -> None:
    with receiving(answers(status(503))) as receiver, capture_logs() as logs:
        told = observer(base, receiver.url, "session.loaded")
        session_id = left_by_another(base, "session.loaded")
        SessionManager(base, observers=[told]).open(session_id)
        told.close(PATIENCE_S)
    [one] = receiver.received
    assert json.loads(one.body)["type"] == "session.loaded"
    [lost] = [one for one in logs if one["event"] == "webhook.not_told"]
    assert (lost["observed"], lost["error"]) == ("session.loaded", "it answered 503")
    assert waiting(base, "session.loaded") == 0


def test_a_store_that_was_away_is_looked_at_again(base: Path) -> None:
    class Away(WebhookSender):
        tries = 0

        def deliver(self, **more: Any) -> Round:
            self.tries += 1
            if self.tries == 1:
                raise StoreUnavailable(store="store", reason="it was restarted")
            return super().deliver(**more)

    with receiving() as receiver:
        webhook = Webhook(name="team", url=receiver.url, events=("session.created",))
        away = Away(webhook, SessionStore(base), log=LOG, environment={})
        away.begin()
        session_id = SessionManager(base).create().session_id
        thread = SenderThread(away, log=LOG, away_s=0.01)
        with capture_logs() as logs:
            thread.saved(session_id)
            wait_until(lambda: receiver.received)
        assert "webhook.sender_failed" in [one["event"] for one in logs]
        thread.close(PATIENCE_S)


def test_an_observer_that_was_told_nothing_starts_no_thread(base: Path) -> None:
    before = set(threading.enumerate())
    told = observer(base, "https://example.com/", "session.aborted")
    SessionManager(base, observers=[told]).create()
    assert set(threading.enumerate()) <= before
    told.close(0)


def test_a_store_in_which_nothing_can_be_kept_fails_no_work(tmp_path: Path) -> None:
    base = tmp_path / "file"
    base.write_text("no directory")
    with capture_logs() as logs:
        observer(base, "https://example.com/").close(0)
    assert [one["event"] for one in logs] == ["webhook.not_begun"]


KILLED = """
import os, sys, threading
from pathlib import Path
from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.harness import (SessionManager, SessionStore)
from agentforge_sessions.integrations.observers.webhook_observer import WebhookObserver
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender
from agentforge_sessions.base.settings.webhooks import Webhook

base, killed_at = Path(sys.argv[1]), sys.argv[2]

class Killer:
    def on_event(self, event):
        if killed_at == "once it is saved" and event.name == "session.completed":
            os._exit(9)

def send(*_, **__):
    if killed_at == "sending":
        os._exit(9)
    threading.Event().wait()

log = get_logger("agentforge.observers")
webhook = Webhook(name="team", url="https://example.com/", events=("session.completed",))
sender = WebhookSender(webhook, SessionStore(base), log=log, environment={}, send=send)
manager = SessionManager(base, observers=[Killer(), WebhookObserver(sender, log=log)])
manager.create()
manager.complete()
if killed_at == "sending":
    threading.Event().wait()
os._exit(9)
"""


@pytest.mark.parametrize("killed_at", ["once it is saved", "once it is told", "sending"])
def test_what_a_killed_process_had_to_tell_is_told_by_the_next_one(
    base: Path, killed_at: str
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(base), killed_at], check=False, timeout=PATIENCE_S
    )
    assert killed.returncode == 9
    [session_id] = SessionManager(base).store.list_sessions()

    with receiving() as receiver:
        assert sender(base, receiver.url, "session.completed").deliver().delivered == 1
    [told] = [json.loads(one.body) for one in receiver.received]
    assert (told["type"], told["session_id"]) == ("session.completed", session_id)
