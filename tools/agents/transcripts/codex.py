"""Read the rollouts of Codex: a line for each item of a thread; pure.

As version 0.169.0 writes them, found by running it. What a person said is in `UserMessage` items
alone: messages with the role of a user come from the program, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..programs.codex import summary_in
from ..programs.meter import object_of, str_of
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

WANTED: Final = (b'"response_item"', b'"item_completed"', b'"token_usage_record"', b'"compacted"')
"""The words that a line needs to be of interest."""
_EXIT: Final = re.compile(r"(?:Process exited with code|Exit code:) (\d{1,3})$", re.MULTILINE)
_OUTPUT: Final = "\nOutput:\n"
"""What comes before a command's output in what the model is shown."""


def entries_of(line: Mapping[str, Any]) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line."""
    payload, at = line.get("payload"), str_of(line.get("timestamp"))
    if not isinstance(payload, Mapping):
        return
    match line.get("type"):
        case "response_item":
            yield from _of_response(payload, at)
        case "event_msg" if isinstance(payload.get("item"), Mapping):
            yield from _of_item(payload["item"], at)
        case "token_usage_record" if isinstance(payload.get("usage"), Mapping):
            yield from _usage(payload, payload["usage"], at)
        case "compacted":
            text = summary_in(str_of(payload.get("message")))
            yield from text_entry("compaction", f"compacted-{at}", at, text)


def _of_response(payload: Mapping[str, Any], at: str) -> Iterator[TranscriptEntry]:
    key, call = str_of(payload.get("id")), str_of(payload.get("call_id"))
    match payload.get("type"):
        case "message" if payload.get("role") == "assistant":
            yield from text_entry("agent", key, at, as_text(payload.get("content")))
        case "reasoning":
            yield from text_entry("thought", key, at, as_text(payload.get("summary")))
        case "function_call" | "custom_tool_call":
            said = str_of(payload.get("arguments")) or str_of(payload.get("input"))
            given = object_of(said)
            name = str_of(payload.get("name"))
            yield from tool_call(call, at, name, said if given is None else given)
            if given is not None and name == "update_plan":
                yield from plan_entry(f"{call}-plan", at, given.get("plan"))
        case "function_call_output" | "custom_tool_call_output":
            text = as_text(payload.get("output"))
            about, found, output = text.partition(_OUTPUT)
            code = _EXIT.search(about if found else text)
            yield from tool_result(
                call, at, output if found else text, exit_code=int(code[1]) if code else None
            )


def _of_item(item: Mapping[str, Any], at: str) -> Iterator[TranscriptEntry]:
    key = str_of(item.get("id"))
    match item.get("type"):
        case "UserMessage":
            yield from text_entry("user", key, at, as_text(item.get("content")))
        case "CommandExecution" if "exit_code" in item:
            text, code = str_of(item.get("aggregated_output")), item["exit_code"]
            yield from tool_result(key, at, text, exit_code=code)
        case "FileChange" if item.get("status") == "completed":
            changes = item.get("changes")
            for number, (path, one) in enumerate(
                changes.items() if isinstance(changes, Mapping) else ()
            ):
                if isinstance(one, Mapping):
                    body = {"path": str_of(one.get("move_path")) or path, "diff": _diff_of(one)}
                    yield TranscriptEntry("edit", f"{key}-edit-{number}", at, body)


def _diff_of(change: Mapping[str, Any]) -> str:
    diff = str_of(change.get("unified_diff"))
    if diff:
        return diff
    content = str_of(change.get("content"))
    if change.get("type") != "delete":
        return added(content)
    lines = content.splitlines()
    return "\n".join([f"@@ -1,{len(lines)} +0,0 @@", *(f"-{one}" for one in lines)])


def _usage(
    record: Mapping[str, Any], usage: Mapping[str, Any], at: str
) -> Iterator[TranscriptEntry]:
    given, cached = usage.get("input_tokens"), usage.get("cached_input_tokens")
    fresh = given - cached if type(given) is int and type(cached) is int else given
    yield from usage_entry(
        str_of(record.get("response_id")),
        at,
        "",
        input=fresh,
        cache_read=cached,
        cache_write=usage.get("cache_write_input_tokens"),
        output=usage.get("output_tokens"),
        reasoning=usage.get("reasoning_output_tokens"),
    )
