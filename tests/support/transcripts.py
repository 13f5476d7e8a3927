"""The transcripts that sessions have of conversations."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from agentforge_sessions.agents.transcripts.entries import stream_of
from agentforge_sessions.harness.session_ports import SessionRepository


class Kept(NamedTuple):
    """A stored entry."""

    head: dict[str, Any]
    body: dict[str, Any]
    size: int


def transcript(
    sessions: SessionRepository, session_id: str, program: str, conversation: str
) -> list[Kept]:
    """Return what a session has of a conversation."""
    stream = stream_of(program, conversation)
    part = sessions.read_entries(session_id, stream)
    bodies = sessions.read_bodies(session_id, stream, part.entries, mark=part.mark)
    return [
        Kept(json.loads(one.head), json.loads(body) if body else {}, len(body))
        for one, body in zip(part.entries, bodies, strict=True)
    ]


def said(entries: list[Kept]) -> list[tuple[str, str]]:
    """Return the kind and the text of each entry that has one."""
    return [(one.head["kind"], one.body["text"]) for one in entries if "text" in one.body]
