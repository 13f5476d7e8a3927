"""A model that answers by a script, for the real agent programs in tests.

It speaks the protocols that the tested programs use, streamed and whole: Anthropic's Messages,
OpenAI's Responses and Gemini's generateContent. It listens on 127.0.0.1, keeps every request, and
runs as a process of its own where a test gives the programs a network namespace:

    python -m tests.support.scripted_model SCRIPT.json REQUESTS.jsonl PORT_FILE

A script is a list of replies, taken one for each request that offers tools. A reply has `text`,
`tools` (each `name` and `input`, `namespace` where the protocol has one), `usage` (`input`,
`output`, `cached`). Once they are used up, and for requests without tools, the reply is `done`.
`when` gives replies to the requests whose text has a word, before the list is looked at.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

from tests.support.loopback import Loopback, loopback

Reply = dict[str, Any]
_numbers = itertools.count(1)


class Script:
    """Which reply each request gets."""

    def __init__(self, replies: list[Reply], when: dict[str, list[Reply]] | None = None) -> None:
        self._replies = list(replies)
        self._when = {word: list(given) for word, given in (when or {}).items()}
        self._lock = threading.Lock()
        self.given: list[Reply] = []

    def add(self, *replies: Reply) -> None:
        with self._lock:
            self._replies += replies

    def when(self, word: str, *replies: Reply) -> None:
        """Give replies to the next requests whose text has a word."""
        with self._lock:
            self._when.setdefault(word, []).extend(replies)

    def clear(self) -> None:
        """Forget all replies that were not given."""
        with self._lock:
            self._replies.clear()
            self._when.clear()

    def reply(self, request: dict[str, Any]) -> Reply:
        """Return the reply to a request, and keep it in `given`."""
        reply = self._choose(request)
        self.given.append(reply)
        return reply

    def _choose(self, request: dict[str, Any]) -> Reply:
        text = json.dumps(request, ensure_ascii=False)
        with self._lock:
            for word, given in self._when.items():
                if word in text and given:
                    return given.pop(0)
            if request.get("tools") and self._replies:
                return self._replies.pop(0)
        return {"text": "done"}


def _id(prefix: str) -> str:
    return f"{prefix}_{os.getpid()}_{next(_numbers):06d}"


def _counts(reply: Reply) -> tuple[int, int, int]:
    usage = reply.get("usage", {})
    return usage.get("input", 100), usage.get("output", 10), usage.get("cached", 0)


def anthropic_events(reply: Reply, model: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Return a message, and the events by which it is streamed."""
    fresh, output, cached = _counts(reply)
    blocks: list[dict[str, Any]] = []
    if reply.get("text"):
        blocks.append({"type": "text", "text": reply["text"]})
    blocks += [
        {"type": "tool_use", "id": _id("toolu"), "name": tool["name"], "input": tool["input"]}
        for tool in reply.get("tools", [])
    ]
    usage = {
        "input_tokens": fresh,
        "output_tokens": output,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }
    reason = "tool_use" if reply.get("tools") else "end_turn"
    message = {
        "id": _id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[tuple[str, Any]] = [("message_start", {"message": begun})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            first = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            first = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append(("content_block_start", {"index": index, "content_block": first}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    ended = {"stop_reason": reason, "stop_sequence": None}
    events += [("message_delta", {"delta": ended, "usage": usage}), ("message_stop", {})]
    return message, [(name, {"type": name, **data}) for name, data in events]


def openai_events(reply: Reply, model: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Return a response, and the events by which it is streamed."""
    fresh, output, cached = _counts(reply)
    items: list[dict[str, Any]] = []
    if reply.get("text"):
        part = {"type": "output_text", "text": reply["text"], "annotations": []}
        items.append(
            {
                "type": "message",
                "id": _id("msg"),
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for tool in reply.get("tools", []):
        call = {"name": tool["name"], "call_id": _id("call"), "status": "completed"}
        if "namespace" in tool:
            call["namespace"] = tool["namespace"]
        if isinstance(tool["input"], str):
            items.append({"type": "custom_tool_call", "id": _id("ctc"), "input": tool["input"]})
        else:
            arguments = json.dumps(tool["input"])
            items.append({"type": "function_call", "id": _id("fc"), "arguments": arguments})
        items[-1].update(call)
    response: dict[str, Any] = {
        "id": _id("resp"),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": items,
        "usage": {
            "input_tokens": fresh,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": fresh + output,
        },
    }
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[tuple[str, Any]] = [("response.created", {"response": begun})]
    for index, item in enumerate(items):
        first = {**item, "status": "in_progress"}
        if item["type"] == "message":
            first["content"] = []
        events.append(("response.output_item.added", {"output_index": index, "item": first}))
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            text = item["content"][0]["text"]
            events.append(("response.output_text.delta", {**place, "delta": text}))
            events.append(("response.output_text.done", {**place, "text": text}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": response}))
    numbered = enumerate(events)
    return response, [
        (name, {"type": name, "sequence_number": number, **data})
        for number, (name, data) in numbered
    ]


def reported(replies: list[Reply], *, cached_is_part: bool) -> int:
    """Return how many tokens the model has told that it took and made.

    Args:
        replies: Its replies.
        cached_is_part: Whether the protocol counts cached tokens among the input, as OpenAI's does.
    """
    return sum(
        fresh + output + (0 if cached_is_part else cached)
        for fresh, output, cached in map(_counts, replies)
    )


def gemini_events(reply: Reply, model: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Return what generateContent answers, and the one event by which it is streamed."""
    fresh, output, cached = _counts(reply)
    parts: list[dict[str, Any]] = [{"text": reply["text"]}] if reply.get("text") else []
    parts += [
        {"functionCall": {"name": tool["name"], "args": tool["input"]}}
        for tool in reply.get("tools", [])
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": fresh,
        "cachedContentTokenCount": cached,
        "candidatesTokenCount": output,
        "totalTokenCount": fresh + output,
    }
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}
    return whole, [("", whole)]


class ScriptedModel:
    """The server; `requests` has what each main request held, in order."""

    def __init__(self, script: Script, *, network: Loopback) -> None:
        self.requests: list[dict[str, Any]] = []
        self.network = network
        self.script = script
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keep(self, request: dict[str, Any]) -> None:
        self.requests.append(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

            def _send(self, status: int, kind: str, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_HEAD(self) -> None:
                self._send(200, "text/plain", b"")

            def do_GET(self) -> None:
                self._send(200, "application/json", b'{"object":"list","data":[],"models":[]}')

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                data = self.rfile.read(length)
                path = self.path.partition("?")[0]
                if path.endswith(("count_tokens", ":countTokens")):
                    count = max(1, len(data) // 4)
                    counted = json.dumps({"input_tokens": count, "totalTokens": count})
                    self._send(200, "application/json", counted.encode())
                    return
                named, _, method = path.rpartition("/")[2].partition(":")
                speak = {
                    "messages": anthropic_events,
                    "responses": openai_events,
                }.get(named, gemini_events if "enerateContent" in method else None)
                if speak is None:
                    self._send(404, "application/json", b'{"error":{"type":"not_found_error"}}')
                    return
                request = json.loads(data or b"{}")
                model.keep(request)
                whole, events = speak(model.script.reply(request), request.get("model", "m"))
                if not (request.get("stream") or method.startswith("stream")):
                    self._send(200, "application/json", json.dumps(whole).encode())
                    return
                stream = "".join(
                    (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
                    for name, event in events
                )
                self._send(200, "text/event-stream", stream.encode())

        return Handler


@contextmanager
def scripted_model(
    replies: list[Reply], when: dict[str, list[Reply]] | None = None
) -> Iterator[ScriptedModel]:
    """Serve a script until the block ends: from a thread, in a network of loopback alone."""
    made: SimpleQueue[ScriptedModel | OSError] = SimpleQueue()

    def serve(network: Loopback) -> None:
        try:
            network.enter()
            model = ScriptedModel(Script(replies, when), network=network)
        except OSError as error:
            made.put(error)
            return
        made.put(model)
        model.serve()

    with loopback() as network:
        thread = threading.Thread(target=serve, args=(network,), daemon=True)
        thread.start()
        model = made.get()
        if isinstance(model, OSError):
            raise model
        try:
            yield model
        finally:
            model.close()
            thread.join()
