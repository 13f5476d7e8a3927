"""The group `agentforge webhooks`: list them, test them, deliver and drop what waits."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from ....harness.domain.session_observer import SessionEvent, WebhookTest
from ....integrations.observers.delivery import Delivery
from ....integrations.observers.observing import (
    UnknownWebhook,
    WebhookUnreached,
    check_patterns,
    senders,
)
from ....integrations.observers.webhook_sender import BEGIN_S, WebhookSender
from ..context import Cli
from ..options import argument, flag
from ..output.documents import selected
from ..output.errors import ExitCode
from ..output.text import age_text, counted_of

_Named = Annotated[
    str | None,
    argument("NAME", "The webhook's name in the configuration; all of them if left out.", None),
]
_BUSY: Final = "another process delivers to it now."
_FORGOTTEN: Final = "what was kept for it is dropped."


def _senders(cli: Cli, name: str | None = None) -> list[WebhookSender]:
    """Return the sender of the named webhook, or the senders of all.

    Raises:
        UnknownWebhook: The configuration has no webhook of this name.
        InvalidConfiguration: It names events that do not exist.
    """
    configuration = cli.configuration
    check_patterns(configuration)
    found = list(senders(configuration, cli.store())) if configuration.webhooks else []
    if name is None:
        return found
    chosen = [one for one in found if one.webhook.name == name]
    if not chosen:
        raise UnknownWebhook(name, [one.webhook.name for one in found])
    return chosen


# ------------------------------------------------------------------------------------------- list


def list_all(cli: Cli) -> None:
    """List the webhooks of the configuration, and what waits for each; nothing is sent."""
    rows = [_row(one, cli.outside.clock().timestamp()) for one in _senders(cli)]
    named = {row["name"] for row in rows}
    others = [name for name in cli.store().receivers() if name not in named]
    if cli.output.wrote({"webhooks": rows, "kept_for": others}):
        return
    columns = ("NAME", "HOST", "EVENTS", "WAITING", "PROBLEM")
    shown = (
        (
            *(row["name"], row["host"], ", ".join(row["events"])),
            _waiting(row["waiting"], row["oldest_s"]),
            row["problem"],
        )
        for row in rows
    )
    nobody = "The configuration has no [[webhooks]]; nobody is told of events."
    cli.output.table(*columns, rows=shown, right=("WAITING",), empty=nobody)
    if others:
        cli.output.line(
            f"Kept for webhooks that it does not name: {', '.join(others)}. Where no other "
            "configuration names them, drop it: agentforge webhooks forget NAME"
        )


def _waiting(number: int, oldest_s: float | None) -> str:
    return f"{number}" if oldest_s is None else f"{number}, for {age_text(oldest_s)}"


def _row(sender: WebhookSender, now: float) -> dict[str, Any]:
    """Return the state of a webhook; of its address, only the host."""
    webhook = sender.webhook
    host, problem = None, None
    try:
        host = webhook.address(os.environ).hostname
        webhook.secrets(os.environ)
    except ValueError as error:
        problem = str(error)
    backlog = sender.backlog()
    oldest = min((one.created for one in backlog.deliveries), default=None)
    return {
        "name": webhook.name,
        "host": host,
        "events": list(webhook.events),
        "signed": webhook.secret_env is not None,
        "waiting": len(backlog.deliveries),
        "oldest_s": None if oldest is None else now - oldest,
        "next_try": backlog.next_try,
        "problem": problem or backlog.problem,
        "cursor": sender.where,
    }


# ------------------------------------------------------------------------------------------- test


def try_receivers(cli: Cli, name: _Named) -> None:
    """Send an event `webhook.test`, once, and say what the receiver answered."""
    done = []
    found = _senders(cli, name)
    if not found:
        raise typer.BadParameter("the configuration has no [[webhooks]]; nothing was sent")
    for sender in found:
        event = SessionEvent(session_id=None, at=cli.outside.clock(), what=WebhookTest())
        test_id = f"evt_{secrets.token_hex(12)}"
        delivery = Delivery(id=test_id, event=event.to_dict(), created=event.at.timestamp())
        answer = sender.send_once(delivery)
        if not answer.taken:
            raise WebhookUnreached(
                sender.webhook.name,
                problem=answer.in_words,
                kept="The test is not sent again; what happens to sessions is kept until it is.",
            )
        done.append({"name": sender.webhook.name, "status": answer.status, "id": delivery.id})
        if not cli.output.json:
            cli.output.line(f"{sender.webhook.name} took it: {answer.status}.")
    cli.output.outcome({"tested": done})


# ---------------------------------------------------------------------------------------- deliver


def deliver(
    cli: Cli,
    name: _Named,
    due: bool = flag("--due"),
) -> None:
    """Send what waits, whether its next try is due or not; what is not taken waits on.

    Args:
        due: Leave out what was not taken and is not due yet.
    """
    rows: list[dict[str, Any]] = []
    for sender in _senders(cli, name):
        found = sender.deliver(at_once=not due)
        waiting = {"waiting": len(sender.backlog().deliveries)}
        counts = {**selected(found, "delivered given_up"), **waiting}
        rows.append({"name": sender.webhook.name, **counts, **selected(found, "busy problem")})
    cli.output.outcome({"webhooks": rows}, *_lines(rows))
    for row in rows:
        if row["problem"] is None:
            continue
        if cli.output.json:
            raise typer.Exit(ExitCode.NOT_DONE)
        kept = f"Waiting for the next try: {counted_of(row['waiting'], 'event')}."
        raise WebhookUnreached(row["name"], problem=row["problem"], kept=kept)


# ----------------------------------------------------------------------------------------- forget


def forget(cli: Cli, name: str = argument("NAME")) -> None:
    """Drop what is kept for a webhook: its cursor, and what removed sessions left for it.

    One that a configuration names begins anew, with what happens from then on.

    Args:
        name: The webhook's name.
    """
    sessions = cli.store()
    known = sessions.receivers()
    if name not in known:
        raise UnknownWebhook(name, known, who="nothing is kept for")
    receiver = sessions.receiver(name)
    with receiver.held(timeout_s=BEGIN_S) as free:
        if free:
            receiver.forget()
    said = f"{name}: {_FORGOTTEN if free else _BUSY}"
    cli.output.outcome({"name": name, "forgotten": free}, said)
    if not free:
        raise typer.Exit(ExitCode.NOT_DONE)


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "The configuration has no [[webhooks]]; nothing waits."
    for row in rows:
        if row["busy"]:
            yield f"{row['name']}: {_BUSY}"
            continue
        given_up = f", {row['given_up']} given up" if row["given_up"] else ""
        yield f"{row['name']}: {row['delivered']} delivered{given_up}, {row['waiting']} waiting."
