"""Bytes to sessions, quickly: files that are exactly as we write them, by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from .entry_data import NO_DATA
from .session_data import decode_data
from .session_domain import (
    MAX_GOAL_CHARS,
    SessionArtifact,
    SessionContext,
    SessionHistory,
)
from .session_head import HEAD_RE, make_head, session_of
from .session_scalars import (
    BLOCK,
    END_MARK,
    NAME,
    TIME,
    NotOurs,
    decode_block,
    decode_name,
    decode_text,
    is_plain,
)

_T = TypeVar("_T")

_GOAL_SPAN: Final = 20 * MAX_GOAL_CHARS
"""More than a goal ever takes: ten characters for one at most, and its margin."""
_GOAL_RE: Final = re.compile(rf"goal: (?:({NAME})\n|({BLOCK % '  '}))")
_ARTIFACT_RE: Final = re.compile(
    rf"  - path: (?:({NAME})\n|({BLOCK % '      '}))    artifact_type: (created|modified)\n"
    rf"    timestamp: ({TIME})\n    phase: ({NAME})\n"
)
_ENTRY_RE: Final = re.compile(
    rf"  - timestamp: ({TIME})\n    action: ({NAME})\n    phase: ({NAME})\n"
    rf"    details: (?:({NAME})\n|({BLOCK % '      '}))"
    r"(?:    data:\n((?:      [^\n]*+\n|\n++)++))?"
)


def _make_artifact(match: re.Match[str]) -> SessionArtifact:
    path, block, artifact_type, timestamp, phase = match.groups()
    return SessionArtifact(
        decode_name(path) if block is None else decode_block(block, "      "),
        artifact_type,
        datetime.fromisoformat(timestamp[1:-1]),
        decode_text(phase),
    )


def _make_entry(match: re.Match[str]) -> SessionHistory:
    timestamp, action, phase, details, block, data = match.groups()
    return SessionHistory(
        datetime.fromisoformat(timestamp[1:-1]),
        decode_name(action),
        decode_text(phase),
        decode_text(details) if block is None else decode_block(block, "      "),
        "",
        NO_DATA if data is None else decode_data(data),
    )


def _decode_items(
    text: str,
    position: int,
    key: str,
    pattern: re.Pattern[str],
    make: Callable[[re.Match[str]], _T],
) -> tuple[list[_T], int, int]:
    """Read one list; return its items and where they begin and end."""
    empty = f"{key}: []\n"
    if text.startswith(empty, position):
        end = position + len(empty)
        return [], end, end
    opening = f"{key}:\n"
    if not text.startswith(opening, position):
        raise NotOurs
    begin = end = position + len(opening)
    items = []
    match = pattern.match
    while (found := match(text, end)) is not None:
        items.append(make(found))
        end = found.end()
    if not items:
        raise NotOurs
    return items, begin, end


def decode_ours(data: bytes, text: str) -> tuple[SessionContext, bytes, bytes]:
    """Read a file that is exactly as we write it.

    Returns:
        The session, and its artifacts and history as they stand in the file.

    Raises:
        NotOurs: It is not.
        InvalidSession: It is, and breaks the rules of the domain.
    """
    if not is_plain(data, text):
        raise NotOurs
    match = HEAD_RE.match(text)
    if match is None or text.find("\nartifacts:", match.end(), match.end() + _GOAL_SPAN) < 0:
        raise NotOurs
    goal = _GOAL_RE.match(text, match.end())
    if goal is None:
        raise NotOurs
    head = make_head(match)
    quoted, block = goal.groups()
    artifacts, first, second = _decode_items(
        text, goal.end(), "artifacts", _ARTIFACT_RE, _make_artifact
    )
    history, third, fourth = _decode_items(text, second, "history", _ENTRY_RE, _make_entry)
    if not history:  # the entry of its creation will be added
        raise NotOurs
    if text[fourth:] != END_MARK.decode():
        raise NotOurs
    session = session_of(
        head,
        artifacts=artifacts,
        history=history,
        goal=decode_text(quoted) if block is None else decode_block(block, "  "),
    )
    return session, text[first:second].encode(), text[third:fourth].encode()
