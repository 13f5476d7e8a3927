"""Read the transcript of Claude Code: a line for each block of a message; pure.

As version 2.1.330 writes them, found by running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..programs.meter import str_of
from .entries import (
    TranscriptEntry,
    added,
    as_text,
    plan_entry,
    text_entry,
    tool_call,
    tool_result,
    usage_entry,
)

WANTED: Final = tuple(
    f'"type":{space}"{kind}"'.encode() for space in ("", " ") for kind in ("user", "assistant")
)
"""The words that a line needs to be of interest."""
_NOT_SAID: Final = ("<task-notification>", "<local-command", "<command-name>", "<command-message>")
"""How texts begin that have the form of a prompt and come from the program itself."""
_BY_PROGRAM: Final = ("isMeta", "repeatsCompactSummary")
_EXIT: Final = re.compile(r"\AExit code (\d{1,3})\n?")


def entries_of(line: Mapping[str, Any]) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line."""
    message = line.get("message")
    key, at = str_of(line.get("uuid")), str_of(line.get("timestamp"))
    if not isinstance(message, Mapping) or not key:
        return
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    found = [one for one in blocks if isinstance(one, Mapping)]
    if line.get("type") == "assistant":
        for number, block in enumerate(found):
            yield from _of_agent(block, f"{key}-{number}" if number else key, at)
        yield from _usage(message, at)
    elif line.get("type") == "user" and not any(map(line.get, _BY_PROGRAM)):
        for block in found:
            if block.get("type") == "tool_result":
                yield from _of_tool(block, line, at)
        said = [str_of(one.get("text")) for one in found if one.get("type") == "text"]
        text = "\n".join(filter(None, said))
        kind = "compaction" if line.get("isCompactSummary") else "user"
        if not text.lstrip().startswith(_NOT_SAID):
            yield from text_entry(kind, key, at, text)


def _of_agent(block: Mapping[str, Any], key: str, at: str) -> Iterator[TranscriptEntry]:
    match block.get("type"):
        case "text":
            yield from text_entry("agent", key, at, str_of(block.get("text")))
        case "thinking":
            yield from text_entry("thought", key, at, str_of(block.get("thinking")))
        case "tool_use":
            call = str_of(block.get("id"))
            yield from tool_call(call, at, str_of(block.get("name")), block.get("input"))


def _usage(message: Mapping[str, Any], at: str) -> Iterator[TranscriptEntry]:
    usage = message.get("usage")
    if isinstance(usage, Mapping):
        yield from usage_entry(
            str_of(message.get("id")),
            at,
            str_of(message.get("model")),
            input=usage.get("input_tokens"),
            cache_read=usage.get("cache_read_input_tokens"),
            cache_write=usage.get("cache_creation_input_tokens"),
            output=usage.get("output_tokens"),
        )


def _of_tool(
    block: Mapping[str, Any], line: Mapping[str, Any], at: str
) -> Iterator[TranscriptEntry]:
    key, text = str_of(block.get("tool_use_id")), as_text(block.get("content"))
    is_error = block.get("is_error") is True
    ended = _EXIT.match(text) if is_error else None
    result = line.get("toolUseResult")
    went_well = isinstance(result, Mapping) and "stdout" in result
    code = int(ended[1]) if ended else 0 if went_well else None
    yield from tool_result(
        key, at, text[ended.end() :] if ended else text, exit_code=code, is_error=is_error
    )
    if isinstance(result, Mapping) and not is_error:
        yield from plan_entry(f"{key}-plan", at, _plan_in(result))
        diff = _diff_in(result)
        if diff:
            body = {"path": str_of(result.get("filePath")), "diff": diff}
            yield TranscriptEntry("edit", f"{key}-edit", at, body)


def _plan_in(result: Mapping[str, Any]) -> object:
    """Return the steps that a to-do tool set, or the one that it made or changed."""
    task, change = result.get("task"), result.get("statusChange")
    if isinstance(task, Mapping) and str_of(task.get("subject")):
        return [{**task, "status": str_of(task.get("status")) or "pending"}]
    if isinstance(change, Mapping):
        return [{"id": str_of(result.get("taskId")), "status": change.get("to")}]
    return result.get("newTodos")


def _diff_in(result: Mapping[str, Any]) -> str:
    path, hunks = str_of(result.get("filePath")), result.get("structuredPatch")
    if not path or not isinstance(hunks, list):
        return ""
    if result.get("type") == "create":
        return added(str_of(result.get("content")))
    found = []
    for hunk in hunks:
        changed = hunk.get("lines") if isinstance(hunk, Mapping) else None
        if isinstance(changed, list):
            begins = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
            found.append("@@ -{},{} +{},{} @@".format(*begins))
            found += map(str_of, changed)
    return "\n".join(found)
