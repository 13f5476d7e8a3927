"""Requests and replies of endpoints that speak OpenAI's or Anthropic's API; pure.

The bodies follow the vendors' references: "Create chat completion" (platform.openai.com) and
"Messages" (docs.anthropic.com), version 2023-06-01. A streamed reply is joined into the reply
that the same endpoint gives without streaming: server-sent events (WHATWG HTML, section
9.2), whose payloads are "chat completion chunk" and "Streaming messages" in the same references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from ...workflows.agents.port import TokenUsage

STREAM_TYPE: Final = "text/event-stream"
_END: Final = "[DONE]"


@frozen(kw_only=True)
class Dialect:
    """The API of a family of endpoints.

    Attributes:
        name: Its name on the command line.
        base_url: Its default base address.
        path: The path after the base.
        key_variable: The environment variable of its key.
        headers: Returns the headers for a key, or for none.
        body: Returns the body for a model, a prompt and the most output tokens.
        read: Returns an answer's text, its usage and whether it was cut off.
        join: Joins the events of a streamed answer into one answer.
    """

    name: str
    base_url: str
    path: str
    key_variable: str
    headers: Callable[[str | None], dict[str, str]]
    body: Callable[[str, str, int], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], tuple[str, TokenUsage | None, bool]]
    join: Callable[[Iterable[Mapping[str, Any]]], Mapping[str, Any]]


def _openai_headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _openai_body(model: str, prompt: str, most: int) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_completion_tokens": most,
    }


def _openai_read(answer: Mapping[str, Any]) -> tuple[str, TokenUsage | None, bool]:
    choice = answer["choices"][0]
    content = choice["message"]["content"] or ""
    if isinstance(content, list):  # some endpoints send a list of parts, some of which are text
        content = "".join(part["text"] for part in content if part["type"] == "text")
    return (
        content,
        _usage(answer.get("usage"), "prompt_tokens", "completion_tokens"),
        choice.get("finish_reason") == "length",
    )


def _anthropic_headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}


def _anthropic_body(model: str, prompt: str, most: int) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": most,
        "messages": [{"role": "user", "content": prompt}],
    }


def _anthropic_read(answer: Mapping[str, Any]) -> tuple[str, TokenUsage | None, bool]:
    text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    return (
        text,
        _usage(answer.get("usage"), "input_tokens", "output_tokens"),
        answer.get("stop_reason") == "max_tokens",
    )


def _usage(usage: Any, spent_in: str, spent_out: str) -> TokenUsage | None:
    try:
        return TokenUsage(input_tokens=usage[spent_in], output_tokens=usage[spent_out])
    except (KeyError, TypeError, ValueError):
        return None


class BrokenStream(ValueError):
    """A stream ended before its reply was complete, or reported an error."""


def is_stream(content_type: str | None, data: bytes) -> bool:
    """Return whether a reply is a stream of events, by its type or, without one, its beginning."""
    if content_type is not None:
        return content_type.split(";")[0].strip().lower() == STREAM_TYPE
    return data.lstrip().startswith((b"data:", b"event:"))


def events_of(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the payloads of a stream; comments and other fields are skipped.

    Raises:
        ValueError: A payload is not a JSON object.
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
    """Join the chunks of a chat completion into one reply.

    Raises:
        BrokenStream: The stream reports an error, or no chunk says why it ended.
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
    """Join the events of a message into one reply.

    Raises:
        BrokenStream: The stream reports an error, or its end is missing.
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


DIALECTS: Final = {
    "openai": Dialect(
        name="openai",
        base_url="https://api.openai.com/v1",
        path="/chat/completions",
        key_variable="OPENAI_API_KEY",
        headers=_openai_headers,
        body=_openai_body,
        read=_openai_read,
        join=openai_reply,
    ),
    "anthropic": Dialect(
        name="anthropic",
        base_url="https://api.anthropic.com/v1",
        path="/messages",
        key_variable="ANTHROPIC_API_KEY",
        headers=_anthropic_headers,
        body=_anthropic_body,
        read=_anthropic_read,
        join=anthropic_reply,
    ),
}
