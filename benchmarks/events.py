"""Measure what observers and webhooks cost a save.

    python -m benchmarks.events [--dir DIRECTORY]

Each candidate adds an entry to the history of a session of 1,000 entries, in the same rounds. The
reference is `SessionStore`, which knows of no events. The receiver of the webhook takes everything
at once: it is no network that is measured here, but what telling it costs beside the save.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import structlog

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.settings.webhooks import Webhook
from agentforge_sessions.harness import SessionEvent, SessionManager, SessionObserver, SessionStore
from agentforge_sessions.integrations.observers.delivery import WebhookResponse
from agentforge_sessions.integrations.observers.webhook_observer import WebhookObserver
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender
from benchmarks.measure import Candidate, compare, row, table
from benchmarks.sessions import facts, make_session, place_in

SIZE = 1_000
STORE = "SessionStore"


class Quiet:
    """Observes, and does nothing."""

    def on_event(self, event: SessionEvent) -> None:
        """See `SessionObserver`."""


def _webhook(place: Path, *events: str) -> WebhookObserver:
    log = get_logger("agentforge.observers")
    webhook = Webhook(name="team", url="https://example.com", events=events)
    sender = WebhookSender(
        webhook,
        SessionStore(place),
        log=log,
        environment={},
        send=lambda *_, **__: WebhookResponse(status=204),
    )
    return WebhookObserver(sender, log=log)


def _manager(place: Path, *observers: SessionObserver) -> Candidate:
    session = make_session(SIZE)
    SessionStore(place).save(session)
    manager = SessionManager(place, observers=observers)
    manager.open(session.session_id)
    return Candidate(lambda: manager.add_history("phase_work", "ran 14 tests, 14 passed; 1.27 s"))


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"))
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with place_in(given.dir) as place:
        print(", ".join(f"{name} {value}" for name, value in facts(place).items()))
        store, session = SessionStore(place / "store"), make_session(SIZE)
        store.save(session)

        def save() -> None:
            session.add_history("phase_work", details="ran 14 tests, 14 passed; 1.27 s")
            store.save(session)

        unchosen = _webhook(place / "other", "session.completed")
        chosen = _webhook(place / "this", "*")
        timed = compare(
            {
                STORE: Candidate(save),
                "SessionManager": _manager(place / "alone"),
                "with an observer": _manager(place / "observed", Quiet()),
                "with a webhook for other events": _manager(place / "other", unchosen),
                "with a webhook for this event": _manager(place / "this", chosen),
            },
            rounds=300,
            budget_s=20.0,
        )
        chosen.close()
    reference = (STORE, timed[STORE])
    print(table([row("save", SIZE, name, one, reference=reference) for name, one in timed.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
