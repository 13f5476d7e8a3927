"""Read the parts of messages that our plugin in opencode passes on; pure.

The parts have the form of version 1.18's events (`message.part.updated`, `todo.updated`), each with
`at`, the time in milliseconds, cut to what one entry can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..programs.meter import count_of, str_of
from .entries import (
    TranscriptEntry,
    added,
    hunks_of,
    plan_entry,
    text_entry,
    tool_call,
    tool_result,
    usage_entry,
)

_TEXTS: Final = {"user": "user", "text": "agent", "reasoning": "thought", "summary": "compaction"}


def entries_of(parts: Iterable[Mapping[str, Any]], conversation: str) -> Iterator[TranscriptEntry]:
    """Yield the entries of parts, which are of the conversation or of its sub-agents'."""
    for part in parts:
        child = str_of(part.get("sessionID"))
        for one in _of_part(part, str_of(part.get("id")), _time(part.get("at"))):
            yield one._replace(child="" if child == conversation else child)


def _of_part(part: Mapping[str, Any], key: str, at: str) -> Iterator[TranscriptEntry]:
    kind = str_of(part.get("type"))
    if kind in _TEXTS:
        yield from text_entry(_TEXTS[kind], key, at, str_of(part.get("text")))
    elif kind == "tool":
        yield from _of_tool(part, key, at)
    elif kind == "todos":
        yield from plan_entry(key, at, _without_ids(part.get("todos")))
    elif kind == "usage":
        tokens = part.get("tokens")
        tokens = tokens if isinstance(tokens, Mapping) else {}
        cache = tokens.get("cache")
        cache = cache if isinstance(cache, Mapping) else {}
        yield from usage_entry(
            key,
            at,
            str_of(part.get("model")),
            input=tokens.get("input"),
            cache_read=cache.get("read"),
            cache_write=cache.get("write"),
            output=tokens.get("output"),
            reasoning=tokens.get("reasoning"),
        )


def _of_tool(part: Mapping[str, Any], key: str, at: str) -> Iterator[TranscriptEntry]:
    status = part.get("status")
    yield from tool_call(key, at, str_of(part.get("tool")), part.get("input"))
    if status not in {"completed", "error"}:
        return
    text, code = str_of(part.get("output")), part.get("exit")
    yield from tool_result(key, at, text, exit_code=code, is_error=status == "error")
    if status == "completed":
        yield from _edits(part, key, at)


def _edits(part: Mapping[str, Any], key: str, at: str) -> Iterator[TranscriptEntry]:
    files, given = part.get("files"), part.get("input")
    for number, one in enumerate(files if isinstance(files, list) else []):
        path = str_of(one.get("path")) if isinstance(one, Mapping) else ""
        diff = hunks_of(str_of(one.get("diff"))) if path else ""
        if path and not diff and part.get("tool") == "write" and isinstance(given, Mapping):
            diff = added(str_of(given.get("content")))
        if diff:
            yield TranscriptEntry("edit", f"{key}-edit-{number}", at, {"path": path, "diff": diff})


def _without_ids(todos: object) -> object:
    """Return the steps without ids: each list replaces the one before."""
    if not isinstance(todos, list):
        return todos
    return [{**one, "id": ""} for one in todos if isinstance(one, Mapping)]


def _time(milliseconds: object) -> str:
    try:
        return datetime.fromtimestamp(count_of(milliseconds) / 1000, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return ""
