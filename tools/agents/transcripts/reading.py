"""Read the stored transcripts of a session, whole or as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...harness.domain.history_events import OfAgent
from ..programs.meter import object_of, str_of
from .entries import Stored, head_of, stream_of

if TYPE_CHECKING:
    from ...harness.session_domain import SessionContext
    from ...harness.session_ports import SessionRepository

_TEXTS = ("text", "input", "result", "diff")


def conversations_of(session: SessionContext) -> list[tuple[str, str]]:
    """Return the program and the id of each conversation in a session's history, oldest first."""
    return list(
        dict.fromkeys(
            (event.program, event.agent_session)
            for entry in session.history
            if entry.action.startswith("agent_") and isinstance(event := entry.event, OfAgent)
        )
    )


def read_transcript(
    sessions: SessionRepository, session_id: str, program: str, conversation: str
) -> list[Stored]:
    """Return the stored entries of a conversation, oldest first; none if nothing is stored.

    Raises:
        AgentForgeError: The transcript is damaged, or the store refused.
    """
    stream = stream_of(program, conversation)
    part = sessions.read_entries(session_id, stream)
    bodies = sessions.read_bodies(session_id, stream, part.entries, mark=part.mark)
    return [
        Stored(head_of(entry.head), object_of(body) or {})
        for entry, body in zip(part.entries, bodies, strict=True)
    ]


def lines_of(entries: list[Stored]) -> Iterator[str]:
    """Yield each entry as text for people: what it is, and its content indented."""
    for head, body in entries:
        title = [str_of(head.get("at"))[:19], f"turn {head.get('turn')}", str_of(head.get("kind"))]
        title += [str_of(body.get(name)) for name in ("name", "path", "model") if body.get(name)]
        if head.get("child"):
            title.append(f"in {str_of(head['child'])}")
        if body.get("exit_code") is not None:
            title.append(f"exit code {body['exit_code']}")
        for name, word in (("masked", "secrets masked"), ("cut", "characters left out")):
            if head.get(name):
                title.append(f"{head[name]} {word}")
        if "file" in head:
            title.append(f"at byte {head.get('offset')} of {str_of(head['file'])}")
        yield "  ".join(title)
        for text in _texts_in(head, body):
            yield "    " + "\n    ".join(text.rstrip().splitlines())


def _texts_in(head: dict[str, object], body: dict[str, object]) -> Iterator[str]:
    yield from (text for name in _TEXTS if (text := str_of(body.get(name))).strip())
    items = body.get("items")
    for one in items if isinstance(items, list) else ():
        if isinstance(one, dict):
            yield f"{str_of(one.get('status'))}: {str_of(one.get('text'))}"
    if head.get("kind") == "usage":
        counts = {name: one for name, one in body.items() if isinstance(one, int) and one}
        yield ", ".join(f"{name} {one:,}" for name, one in counts.items())
