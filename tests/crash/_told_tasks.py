"""Tasks about receivers for `_workers`: a change of a session, and telling three of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult

import structlog

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.files import FileSystem
from agentforge_sessions.base.settings.webhooks import Webhook
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.integrations.observers.delivery import WebhookResponse
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender

RECEIVERS: Final = ("one", "two", "three")
EVENTS: Final = ("session.paused", "session.recorded", "session.aborted")


def silence() -> None:
    """Log nothing: what is judged is what was told."""
    structlog.configure(processors=[_drop])


def _drop(*_: object) -> Any:
    raise structlog.DropEvent


def senders(base: Path, fs: FileSystem | None = None) -> list[WebhookSender]:
    """Return what delivers to the three; what one took is a line of a file of its name."""
    store = SessionStore(base, fs=fs)
    return [
        WebhookSender(
            Webhook(name=name, url=f"https://{name}.example.com/", events=EVENTS),
            store,
            log=get_logger("agentforge.observers"),
            environment={},
            send=Taking(base.parent / name),
        )
        for name in RECEIVERS
    ]


class Taking:
    """A receiver that takes all; a line is in its file when it has said so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(
        self, address: SplitResult, body: bytes, headers: Mapping[str, str], *, timeout_s: float
    ) -> WebhookResponse:
        line = json.dumps([headers["webhook-id"], json.loads(body)]).encode() + b"\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
        return WebhookResponse(status=204)


def prepare(base: Path) -> str:
    """Begin a session, and the three receivers behind its beginning; return its id."""
    silence()
    session_id = SessionManager(base).create().session_id
    for one in senders(base):
        one.begin()
    return session_id


def change_and_tell(base: Path, fs: FileSystem, operation: str) -> None:
    """Change the session, and tell the three receivers; "remove" removes it in between."""
    silence()
    store = SessionStore(base, fs=fs)
    [session_id] = store.list_sessions()
    manager = SessionManager(store)
    manager.open(session_id)
    if operation == "together":
        with manager.changes():
            manager.add_history("first")
            manager.record("second", tokens=7)
            manager.pause("together")
    else:
        manager.pause("first")
        manager.abort("second")
    if operation == "remove":
        manager.delete(session_id)
    for one in senders(base, fs):
        one.deliver()
