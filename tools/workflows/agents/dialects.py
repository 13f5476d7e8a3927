"""What the endpoints of OpenAI's and of Anthropic's kind are asked with, and how they answer.

The bodies follow the vendors' references: "Create chat completion" (platform.openai.com) and
"Messages" (docs.anthropic.com), version 2023-06-01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from .port import TokenUsage
from .streams import anthropic_reply, openai_reply


@frozen(kw_only=True)
class Dialect:
    """How a family of endpoints is spoken to.

    Attributes:
        name: Its name on the command line.
        base_url: Where it is unless said otherwise.
        path: What follows the base.
        key_variable: The environment variable of its key.
        headers: Makes the headers of a key (or of none).
        body: Makes the body of model, prompt and the most output tokens.
        read: Takes text, usage and whether it was cut off from an answer.
        join: Makes an answer of the events of a streamed one.
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
    if isinstance(content, list):  # as some endpoints spell it: parts, of which some are text
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
