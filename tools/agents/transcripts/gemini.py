"""Read the chat files of Gemini CLI: a line for each message, repeated once its tools ran; pure.

As version 0.61.0 writes them, found by running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..programs.gemini import summary_in, without_context
from ..programs.meter import str_of
from .entries import (
    TranscriptEntry,
    as_text,
    hunks_of,
    plan_entry,
    text_entry,
    tool_call,
    tool_result,
    usage_entry,
)

WANTED: Final = (b'"user"', b'"gemini"')
"""The words that a line needs to be of interest."""
_SETUP: Final = "<session_context>"
"""How the program's own first message begins."""
_EXIT: Final = re.compile(r"^Exit Code: (\d{1,3})$", re.MULTILINE)
_OUTPUT: Final = re.compile(
    r"\A<untrusted_context>\n(?:Output: )?(?s:(.*?))\n?(?:Exit Code: .*|Process Group PGID: .*|\n)*"
    r"</untrusted_context>\Z"
)
"""What the program puts around a command's output."""


def entries_of(line: Mapping[str, Any]) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line."""
    key, at = str_of(line.get("id")), str_of(line.get("timestamp"))
    if line.get("type") == "user":
        text = without_context(_said(line.get("content")))
        summary = summary_in(text)
        if summary:
            yield from text_entry("compaction", key, at, summary)
        elif not text.lstrip().startswith(_SETUP):
            yield from text_entry("user", key, at, text)
    elif line.get("type") == "gemini" and key:
        yield from _of_model(line, key, at)
    elif isinstance(line.get("$set"), Mapping):  # after a compression: the history that is left
        history = line["$set"].get("messages")
        for one in history if isinstance(history, list) else ():
            if isinstance(one, Mapping) and one.get("type") == "user":
                found = entries_of(one)
                yield from (entry for entry in found if entry.kind == "compaction")


def _said(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [str_of(one.get("text")) for one in parts if isinstance(one, Mapping)]
    return "\n".join(filter(None, texts))


def _of_model(line: Mapping[str, Any], key: str, at: str) -> Iterator[TranscriptEntry]:
    thoughts = line.get("thoughts")
    for number, one in enumerate(thoughts if isinstance(thoughts, list) else []):
        if isinstance(one, Mapping):
            text = f"{str_of(one.get('subject'))}\n{str_of(one.get('description'))}".strip()
            yield from text_entry("thought", f"{key}-thought-{number}", at, text)
    yield from text_entry("agent", key, at, _said(line.get("content")))
    calls = line.get("toolCalls")
    for one in calls if isinstance(calls, list) else ():
        if isinstance(one, Mapping):
            yield from _of_tool(one, at)
    tokens = line.get("tokens")
    if isinstance(tokens, Mapping):
        given, cached = tokens.get("input"), tokens.get("cached")
        fresh = given - cached if type(given) is int and type(cached) is int else given
        yield from usage_entry(
            key,
            at,
            str_of(line.get("model")),
            input=fresh,
            cache_read=cached,
            output=tokens.get("output"),
            reasoning=tokens.get("thoughts"),
        )


def _of_tool(call: Mapping[str, Any], at: str) -> Iterator[TranscriptEntry]:
    key, given, status = str_of(call.get("id")), call.get("args"), call.get("status")
    yield from tool_call(key, at, str_of(call.get("name")), given)
    if "result" not in call:
        return
    text = _result_in(call["result"])
    code, output = _EXIT.search(text), _OUTPUT.match(text)
    yield from tool_result(
        key,
        at,
        output[1] if output else text,
        exit_code=int(code[1]) if output and code else None,
        is_error=status in {"error", "cancelled"},
    )
    shown = call.get("resultDisplay")
    if isinstance(shown, Mapping) and status == "success":
        yield from plan_entry(f"{key}-plan", at, shown.get("todos"))
        diff, path = str_of(shown.get("fileDiff")), str_of(shown.get("filePath"))
        if diff and path:
            body = {"path": path, "diff": hunks_of(diff)}
            yield TranscriptEntry("edit", f"{key}-edit", at, body)


def _result_in(result: object) -> str:
    """Return what a tool answered the model."""
    texts = []
    for one in result if isinstance(result, list) else ():
        response = one.get("functionResponse") if isinstance(one, Mapping) else None
        answer = response.get("response") if isinstance(response, Mapping) else None
        if isinstance(answer, Mapping):
            texts.append(as_text(answer.get("output", answer.get("error"))))
    return "\n".join(texts) if texts else as_text(result)
