"""What a receiver is told of, in the background, and what stays for the next process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.event_log import get_logger
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.observers.delivery import signature
from agentforge_sessions.observers.outbox import Outbox
from agentforge_sessions.observers.webhook_observer import WebhookObserver
from agentforge_sessions.observers.webhook_sender import WebhookSender
from agentforge_sessions.project.webhooks import Webhook
from tests.support.promptness import PATIENCE_S, wait_until
from tests.support.webhook_receiver import OK, answers, receiving, status

LOG = get_logger("agentforge.observers")


def observer(directory: Path, url: str, *events: str) -> WebhookObserver:
    webhook = Webhook(
        name="team", url=url, events=events or ("session.*",), secret_env="S", timeout_s=PATIENCE_S
    )
    outbox = Outbox(directory, "team")
    return WebhookObserver(WebhookSender(webhook, outbox, log=LOG, environment={"S": "k"}), log=LOG)


def waiting(directory: Path) -> int:
    return len(Outbox(directory, "team").names())


def test_the_events_that_a_receiver_wants_reach_it_signed(base: Path, tmp_path: Path) -> None:
    with receiving() as receiver:
        told = observer(tmp_path / "out", receiver.url, "session.paused", "session.c*d")
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
    assert waiting(tmp_path / "out") == 0


def test_the_work_never_waits_for_a_receiver(base: Path, tmp_path: Path) -> None:
    answer = threading.Event()

    def behave(connection: socket.socket, _: int) -> None:
        answer.wait(PATIENCE_S)
        connection.sendall(OK)

    with receiving(behave) as receiver:
        told = observer(tmp_path / "out", receiver.url)
        manager = SessionManager(base, observers=[told])
        manager.create()
        wait_until(lambda: receiver.received)
        manager.complete()  # while the first delivery is under way
        assert waiting(tmp_path / "out") == 2, "each is on disk until it was taken"
        answer.set()
        told.close(PATIENCE_S)
    assert waiting(tmp_path / "out") == 0


def test_what_a_dead_receiver_did_not_take_stays_for_the_next_process(
    base: Path, tmp_path: Path
) -> None:
    with receiving(answers(status(500))) as receiver, capture_logs() as logs:
        told = observer(tmp_path / "out", receiver.url)
        SessionManager(base, observers=[told]).create()
        told.close(PATIENCE_S)
        assert len(receiver.received) == 1
    [left] = [one for one in logs if one["event"] == "webhook.waiting"]
    assert (left["count"], left["log_level"]) == (1, "warning")
    assert waiting(tmp_path / "out") == 1


def test_the_end_waits_no_longer_than_it_is_given(base: Path, tmp_path: Path) -> None:
    leave = threading.Event()

    def hang(connection: socket.socket, _: int) -> None:
        leave.wait(PATIENCE_S)

    with receiving(hang) as receiver:
        told = observer(tmp_path / "out", receiver.url)
        SessionManager(base, observers=[told]).create()
        told.close(0.05)
        assert waiting(tmp_path / "out") == 1
        leave.set()
        told.close(PATIENCE_S)


def test_a_run_delivers_what_an_earlier_process_left(base: Path, tmp_path: Path) -> None:
    from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner
    from tests.support.executors import FakeExecutor

    Outbox(tmp_path / "out", "team").add({"type": "x", "session_id": None}, token="00000001")
    with receiving() as receiver:
        told = observer(tmp_path / "out", receiver.url, "session.aborted")
        manager = SessionManager(base, executor=FakeExecutor(), observers=[told])
        WorkflowRunner(manager).start(
            Workflow(
                name="one",
                workflow_type="scripts",
                phases=[Phase(name="one", gate=Script(code="pass"))],
            )
        )
        wait_until(lambda: waiting(tmp_path / "out") == 0)
        told.close(PATIENCE_S)
    assert [one.headers["webhook-id"] for one in receiver.received] == ["evt_00000001"]


def test_an_observer_that_was_told_nothing_starts_no_thread(base: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    told = observer(tmp_path / "out", "https://example.com/", "session.aborted")
    SessionManager(base, observers=[told]).create()
    assert set(threading.enumerate()) <= before
    told.close(0)
    assert not (tmp_path / "out").exists()


KILLED = """
import os, sys, threading
from pathlib import Path
from agentforge_sessions.event_log import get_logger
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.observers.delivery import Answer
from agentforge_sessions.observers.outbox import Outbox
from agentforge_sessions.observers.webhook_observer import WebhookObserver
from agentforge_sessions.observers.webhook_sender import WebhookSender
from agentforge_sessions.project.webhooks import Webhook

base, out, killed_at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def send(*_, **__):
    if killed_at == "sending":
        os._exit(9)
    threading.Event().wait()

log = get_logger("agentforge.observers")
webhook = Webhook(name="team", url="https://example.com/", events=("session.completed",))
sender = WebhookSender(webhook, Outbox(out, "team"), log=log, environment={}, send=send)
manager = SessionManager(base, observers=[WebhookObserver(sender, log=log)])
manager.create()
manager.complete()
if killed_at == "sending":
    threading.Event().wait()
os._exit(9)
"""


@pytest.mark.parametrize("killed_at", ["once it is saved", "sending"])
def test_what_a_killed_process_had_to_tell_is_told_by_the_next_one(
    base: Path, tmp_path: Path, killed_at: str
) -> None:
    out = tmp_path / "out"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(base), str(out), killed_at],
        check=False,
        timeout=PATIENCE_S,
    )
    assert killed.returncode == 9
    [session_id] = SessionManager(base).store.list_sessions()

    with receiving() as receiver:
        webhook = Webhook(name="team", url=receiver.url)
        sender = WebhookSender(webhook, Outbox(out, "team"), log=LOG, environment={})
        assert sender.deliver().delivered == 1
    [told] = [json.loads(one.body) for one in receiver.received]
    assert (told["type"], told["session_id"]) == ("session.completed", session_id)
