"""Gemini CLI: parse its hook input and format the answers; pure.

The events and fields are those of version 0.61 ("Hooks reference", in the program's own docs). A
compression removes the briefing from the context, and no event reports it. So each request is
examined: one that has a summary and no briefing gets the briefing again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from .hook_event import (
    BRIEFED,
    SENT_ON,
    HookEvent,
    HookReply,
    Moment,
    ReportedUsage,
    begun_event,
    text_of,
)
from .meter import UsageMeter, count_of, names_in, read_new_lines, str_of
from .tokens import Tokens, split

NAME: Final = "gemini"
COMMAND: Final = "gemini"
TRIED: Final = "0.61.0"
"""The version that the tests with the real program run."""
MAX_CONTEXT_CHARS: Final = 9_000
"""The program sets no limit."""
COMPACTED: Final = None
"""A restarted conversation lacks the earlier briefing."""

_MOMENTS: Final = {
    "SessionStart": Moment.STARTED,
    "BeforeAgent": Moment.PROMPTED,
    "BeforeModel": Moment.BEFORE_MODEL,
    "AfterModel": Moment.MODEL_ANSWERED,
    "AfterTool": Moment.AFTER_TOOL,
    "AfterAgent": Moment.TURN_ENDED,
}
EVENTS: Final = tuple(_MOMENTS)
"""The events to register the hook for."""
_TEXTS: Final = {Moment.PROMPTED: "prompt", Moment.TURN_ENDED: "prompt_response"}
_CONTEXT: Final = re.compile(r"\A\s*<hook_context>.*?</hook_context>\s*", re.DOTALL)
"""The hooks' output at the start, which precedes the first prompt."""
_NO_TEXT: Final = "[no response text]"
_SNAPSHOT: Final = "<state_snapshot>"
_SNAPSHOT_END: Final = "</state_snapshot>"
_MAX_FILES: Final = 1000
_SHORT_ID: Final = 8


def event_of(payload: Mapping[str, Any]) -> HookEvent | None:
    """Parse a hook's input; None if the event is not handled."""
    event = begun_event(NAME, payload, _MOMENTS)
    if event is None:
        return None
    moment = event.moment
    text = text_of(payload, _TEXTS[moment]) if moment in _TEXTS else ""
    request: tuple[tuple[str, str], ...] = ()
    if moment is Moment.BEFORE_MODEL:
        text, request = _summary(payload)
    elif moment is Moment.PROMPTED:
        text = without_context(text)
    return event._replace(
        text="" if text == _NO_TEXT else text,
        by_person=not text.startswith(SENT_ON),
        edited=_edited(payload) if moment is Moment.AFTER_TOOL else (),
        request=request,
        usage=_answered(payload) if moment is Moment.MODEL_ANSWERED else (),
    )


def _answered(payload: Mapping[str, Any]) -> tuple[ReportedUsage, ...]:
    """Return the tokens of an answer, which the program's file may not have yet."""
    request, answer = payload.get("llm_request"), payload.get("llm_response")
    given = answer.get("usageMetadata") if isinstance(answer, Mapping) else None
    if not isinstance(given, Mapping):
        return ()
    read, said, total = (
        count_of(given.get(f"{one}TokenCount")) for one in ("prompt", "candidates", "total")
    )
    tokens = split(total, Tokens(0, 0, 0, said, max(0, total - read - said)))
    model = text_of(request, "model") if isinstance(request, Mapping) else ""
    return (ReportedUsage("", tokens, model[:200]),) if total else ()


def without_context(prompt: str) -> str:
    """Return a prompt without the hooks' output before it."""
    return _CONTEXT.sub("", prompt, count=1)


def summary_in(message: str) -> str:
    """Return the summary in a message to the model; empty if it has none."""
    return message.partition(_SNAPSHOT)[2].partition(_SNAPSHOT_END)[0].strip()


def _summary(payload: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the summary in a request, and the messages up to it if no briefing follows."""
    given = payload.get("llm_request")
    messages = given.get("messages") if isinstance(given, Mapping) else None
    found = [
        (text_of(one, "role"), text_of(one, "content"))
        for one in (messages if isinstance(messages, list) else [])
        if isinstance(one, Mapping)
    ]
    for number, (role, content) in enumerate(found):
        if role == "user" and _SNAPSHOT in content:
            snapshot = summary_in(content)
            is_briefed = any(BRIEFED in text for _, text in found[number + 1 :])
            return snapshot, () if is_briefed else tuple(found[: number + 1])
    return "", ()


def _edited(payload: Mapping[str, Any]) -> tuple[tuple[str, bool], ...]:
    tool, given = payload.get("tool_name"), payload.get("tool_input")
    if tool not in {"write_file", "replace"} or not isinstance(given, Mapping):
        return ()
    answer = payload.get("tool_response")
    if not isinstance(answer, Mapping) or answer.get("error"):
        return ()
    shown = answer.get("returnDisplay")
    shown = shown if isinstance(shown, Mapping) else {}
    path = text_of(shown, "filePath") or text_of(given, "file_path")
    return ((path, shown.get("isNewFile") is True),) if path else ()


def takes_context(event: HookEvent) -> bool:
    """Return whether the answer to an event may carry text for the model."""
    return event.name in {"SessionStart", "BeforeAgent", "AfterTool"}


def answer_of(event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
    """Return the hook's output, or None for none."""
    for name, reason in (
        ("BeforeAgent", reply.refuse),
        ("AfterAgent", reply.go_on),
        ("BeforeModel", reply.stop),
    ):
        if reason is not None and event.name == name:
            return {"decision": "deny", "reason": reason}
    if reply.context is None:
        return None
    specific: dict[str, Any] = {"hookEventName": event.name}
    if takes_context(event):
        return {"hookSpecificOutput": {**specific, "additionalContext": reply.context}}
    if event.request:
        return {"hookSpecificOutput": {**specific, "llm_request": _briefed(event, reply.context)}}
    return None


def _briefed(event: HookEvent, briefing: str) -> dict[str, Any]:
    """Return the request's first messages with the briefing after the summary.

    Later messages are unchanged: the program replaces only as many messages as it receives.
    """
    *before, (role, content) = event.request
    messages = [*before, (role, f"{content}\n\n{briefing}")]
    return {"messages": [{"role": one, "content": text} for one, text in messages]}


def read(files: list[str], meter: UsageMeter) -> None:
    """Read what Gemini CLI wrote of the conversation and its subagents since the last reading.

    A message is written again, with the same id, after its tools have run.
    """
    for name in files:
        for entry in read_new_lines(name, meter, (b'"tokens"',)):
            tokens, key = entry.get("tokens"), entry.get("id")
            if entry.get("type") == "gemini" and isinstance(tokens, dict) and isinstance(key, str):
                meter.saw(entry.get("timestamp"))
                meter.report(key, _tokens(tokens), str_of(entry.get("model")))


def _tokens(given: dict[str, Any]) -> Tokens:
    """Return the tokens by kind; the program counts cached ones as input."""
    cached, said, thought = (count_of(given.get(one)) for one in ("cached", "output", "thoughts"))
    return split(count_of(given.get("total")), Tokens(0, cached, 0, said, thought))


def known_files(path: str, _meter: UsageMeter, _conversation: str | None = None) -> list[str]:
    """Return the files of a conversation: its subagents' first, then its own.

    Its own files are named by the beginning of its id, the folder of its subagents by the full id.
    When a conversation is resumed, the program first names a new file but then writes to the old
    one.
    """
    chats, name = os.path.split(path)
    short = name.removesuffix(".jsonl").rpartition("-")[2]
    inside, own = [], [path]
    for one in names_in(chats) if len(short) == _SHORT_ID else []:
        if one.startswith(short):
            folder = os.path.join(chats, one)
            inside += [os.path.join(folder, file) for file in names_in(folder)]
        elif one.endswith(f"-{short}.jsonl") and one != name:
            own.append(os.path.join(chats, one))
    return [*[one for one in inside if one.endswith(".jsonl")][:_MAX_FILES], *own[:_MAX_FILES]]
