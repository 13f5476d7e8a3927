"""Commands for sessions that a person's own program leads."""

from __future__ import annotations

import json

from ...context import Cli
from ...options import SessionId, argument, misuse, option


def signal(
    cli: Cli,
    session_id: SessionId,
    name: str = argument("NAME"),
    value: str | None = option("--value JSON"),
) -> None:
    """Send a signal to the program that leads a session; it may wait for it, or come to it later.

    Args:
        name: What the program waits for: s.wait_for("NAME").
        value: What the wait returns: JSON, as '"yes"' or '{"pages": 3}'; null by default.
    """
    from .....harness.steps.program_sessions import send_signal

    try:
        sent = None if value is None else json.loads(value)
    except ValueError as error:
        raise misuse("--value", f"is no JSON ({error}); quote text twice: '\"yes\"'") from None
    session_id = cli.own_id(session_id)
    send_signal(cli.store(), session_id, name, sent, by="person", clock=cli.outside.clock)
    cli.output.outcome(
        {"session_id": session_id, "signal": name, "value": sent},
        f"Sent {name} to session {session_id}.",
    )
