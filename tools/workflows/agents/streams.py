"""Streamed replies, put together to what the same endpoint answers when it does not stream.

The events are server-sent events (WHATWG HTML, section 9.2): lines `data: …`, of which several make
one event, and a blank line after each. Their payloads follow the vendors' references: "chat
completion chunk" (platform.openai.com) and "Streaming messages" (docs.anthropic.com). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

STREAM_TYPE: Final = "text/event-stream"
_END: Final = "[DONE]"


class BrokenStream(ValueError):
    """A stream ended before its reply did, or reported an error."""


def is_stream(content_type: str | None, data: bytes) -> bool:
    """Whether a reply is a stream of events, by its type or, without one, its beginning."""
    if content_type is not None:
        return content_type.split(";")[0].strip().lower() == STREAM_TYPE
    return data.lstrip().startswith((b"data:", b"event:"))


def events_of(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Take the payloads out of a stream; comments and other fields are passed over.

    Raises:
        ValueError: A payload is no JSON object.
    """
    text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line.startswith("data:")]
        payload = "\n".join(line.removeprefix("data:").removeprefix(" ") for line in lines)
        if not payload or payload == _END:
            continue
        value = json.loads(payload)
        if not isinstance(value, dict):
            raise BrokenStream("an event of the stream is no object")
        yield value


def openai_reply(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Put chunks of a chat completion together.

    Raises:
        BrokenStream: It reports an error, or no chunk says why it ended.
    """
    text: list[str] = []
    finish, usage = None, None
    for event in events:
        _refuse_error(event)
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            text.append((choice.get("delta") or {}).get("content") or "")
            finish = choice.get("finish_reason") or finish
    if finish is None:
        raise BrokenStream("the stream ended before the answer did")
    choice = {"message": {"content": "".join(text)}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


def anthropic_reply(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Put the events of a message together.

    Raises:
        BrokenStream: It reports an error, or its end is missing.
    """
    text: list[str] = []
    usage: dict[str, Any] = {}
    stop = None
    for event in events:
        _refuse_error(event)
        kind = event.get("type")
        if kind == "message_start":
            usage |= event["message"].get("usage") or {}
        elif kind == "content_block_start" and event["content_block"]["type"] == "text":
            text.append(event["content_block"]["text"])
        elif kind == "content_block_delta" and event["delta"]["type"] == "text_delta":
            text.append(event["delta"]["text"])
        elif kind == "message_delta":
            stop = event["delta"].get("stop_reason") or stop
            usage |= event.get("usage") or {}
    if stop is None:
        raise BrokenStream("the stream ended before the answer did")
    content = [{"type": "text", "text": "".join(text)}]
    return {"content": content, "stop_reason": stop, "usage": usage}


def _refuse_error(event: Mapping[str, Any]) -> None:
    error = event.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise BrokenStream(f"the stream told of an error: {message}")
