"""Models behind HTTP, against a server on this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from agentforge_sessions.agents.running.dialects import DIALECTS
from agentforge_sessions.agents.running.http import HttpAgent, make_agent
from agentforge_sessions.base.cancellation import CancelToken, OperationCancelled, cancellable
from agentforge_sessions.base.tracing import Traced, traced
from agentforge_sessions.workflows.agents.choice import parse_agent
from agentforge_sessions.workflows.agents.port import (
    AgentCutOff,
    AgentFailed,
    AgentParameters,
    AgentTimeout,
    AgentUnavailable,
)
from tests.support.cancelling import cancelled_when
from tests.support.descriptors import held
from tests.support.tracing import recorded
from tests.unit.agents.test_command_agent import request


class Endpoint:
    """A server that answers what it was given, in turn, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append((self.path, dict(self.headers), json.loads(body)))
                status, headers, data = endpoint.answers.pop(0)
                if status == 0:
                    endpoint.released.wait(30)
                    return
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                endpoint.asked.append((self.path, dict(self.headers), None))
                status, headers, data = endpoint.answers.pop(0)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.released = threading.Event()
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def will(self, status: int, answer: object = None, **headers: str) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.answers.append((status, headers, data))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint()
    yield one
    one.stop()


OPENAI = {
    "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5},
}
ANTHROPIC = {
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}


def agent(endpoint: Endpoint, dialect: str = "openai", **more: Any) -> HttpAgent:
    more.setdefault("sleep", lambda seconds: None)
    return HttpAgent(DIALECTS[dialect], "m-1", base_url=endpoint.url, key="k", **more)


def test_openai_is_asked_as_it_wants_to_be(endpoint: Endpoint) -> None:
    endpoint.will(200, OPENAI)
    answer = agent(endpoint).answer(request("do it"))
    assert answer.text == "hello"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 5)
    ((path, headers, body),) = endpoint.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer k"
    assert body["model"] == "m-1"
    assert body["messages"] == [{"role": "user", "content": "do it"}]
    assert body["max_completion_tokens"] == 998, "no more than the budget has left"


def test_a_call_that_is_traced_hands_its_span_on_and_no_other_does(endpoint: Endpoint) -> None:
    endpoint.will(200, OPENAI)
    endpoint.will(200, OPENAI)
    with recorded({"TRACESTATE": "unused"}), traced(Traced.AGENT_CALL, detail="chat m") as span:
        agent(endpoint).answer(request())
        handed = span.carrier
    agent(endpoint).answer(request())
    (_, headers, _), (_, untraced, _) = endpoint.asked
    assert headers["traceparent"] == handed["traceparent"]
    assert "tracestate" not in headers
    assert "traceparent" not in untraced


def test_anthropic_is_asked_as_it_wants_to_be(endpoint: Endpoint) -> None:
    endpoint.will(200, ANTHROPIC)
    answer = agent(endpoint, "anthropic").answer(request())
    assert answer.text == "hello"
    assert answer.usage is not None
    assert answer.usage.total == 12
    ((path, headers, body),) = endpoint.asked
    assert path == "/v1/messages"
    assert {name.lower(): value for name, value in headers.items()}["x-api-key"] == "k"
    assert body["max_tokens"] == 998


def test_busy_endpoint_is_asked_again_when_it_says(endpoint: Endpoint) -> None:
    slept: list[float] = []
    endpoint.will(429, {"error": "slow down"}, **{"Retry-After": "7"})
    endpoint.will(503, {})
    endpoint.will(200, OPENAI)
    one = agent(endpoint, sleep=slept.append, chance=lambda: 0.5)
    assert one.answer(request()).text == "hello"
    assert slept == [7.0, 2.0]


def test_endpoint_that_stays_busy_uses_up_no_attempt(endpoint: Endpoint) -> None:
    for _ in range(4):
        endpoint.will(529, {"error": "overloaded"})
    with pytest.raises(AgentUnavailable, match=r"answered 529: .*overloaded.*try 4 of 4"):
        agent(endpoint).answer(request())


def test_endpoint_that_asks_to_wait_beyond_the_time_limit_is_not_asked_before(
    endpoint: Endpoint,
) -> None:
    endpoint.will(429, {"error": "quota"}, **{"Retry-After": "3600"})
    with pytest.raises(AgentUnavailable, match=r"try 1 of 4; it asks to wait 3600 s"):
        agent(endpoint).answer(request())
    assert len(endpoint.asked) == 1


def test_wait_that_the_endpoint_names_is_kept_in_full(endpoint: Endpoint) -> None:
    slept: list[float] = []
    endpoint.will(429, {}, **{"Retry-After": "75"})
    endpoint.will(429, {}, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})
    endpoint.will(429, {}, **{"Retry-After": "nan"})
    endpoint.will(200, OPENAI)
    agent(endpoint, sleep=slept.append, chance=lambda: 0.5).answer(request())
    assert slept == [75.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [302, 400, 401, 402, 403, 404])
def test_refusal_is_not_tried_again(endpoint: Endpoint, status: int) -> None:
    endpoint.will(status, {"error": {"message": "no such model"}})
    with pytest.raises(AgentUnavailable, match="no such model"):
        agent(endpoint).answer(request())
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"{}",
        b'{"choices": []}',
        b"[1]",
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": [{"message": {"content": ["x"]}}]}',
    ],
)
def test_answer_of_another_kind_is_told(endpoint: Endpoint, answer: bytes) -> None:
    endpoint.will(200, answer)
    with pytest.raises(AgentFailed, match="no answer of openai"):
        agent(endpoint).answer(request())


def test_answer_that_was_cut_off_is_not_taken(endpoint: Endpoint) -> None:
    endpoint.will(200, {**ANTHROPIC, "stop_reason": "max_tokens"})
    with pytest.raises(AgentCutOff, match="998 tokens, what the budget has left") as caught:
        agent(endpoint, "anthropic").answer(request())
    assert caught.value.usage is not None
    assert (caught.value.limit, caught.value.by_budget) == (998, True)
    endpoint.will(200, {**ANTHROPIC, "stop_reason": "max_tokens"})
    with pytest.raises(AgentCutOff, match="its limit; raise the limit with --max-output"):
        agent(endpoint, "anthropic", max_output_tokens=20).answer(request())
    assert endpoint.asked[1][2]["max_tokens"] == 20
    assert caught.value.usage.total == 12, "it is paid for all the same"


def test_content_in_parts_is_put_together(endpoint: Endpoint) -> None:
    parts = [{"type": "thinking"}, {"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    endpoint.will(200, {"choices": [{"message": {"content": parts}}]})
    assert agent(endpoint).answer(request()).text == "hello"


@pytest.mark.parametrize("count", [-1, "7", True, 10**30])
def test_usage_that_is_no_count_is_none(endpoint: Endpoint, count: object) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": 5}
    endpoint.will(200, {**OPENAI, "usage": usage})
    assert agent(endpoint).answer(request()).usage is None


def test_answer_whose_connection_breaks_off_is_told(endpoint: Endpoint) -> None:
    endpoint.will(200, b'{"choices": [', **{"Content-Length": "1000"})
    with pytest.raises(AgentFailed, match="broke off") as caught:
        agent(endpoint).answer(request())
    assert caught.value.may_recover


def test_answer_leaves_room_for_the_prompt(endpoint: Endpoint) -> None:
    endpoint.will(200, OPENAI)
    agent(endpoint).answer(request("x" * 600))  # about 200 tokens
    assert endpoint.asked[0][2]["max_completion_tokens"] == 800


def test_endpoint_that_hangs_is_left(endpoint: Endpoint) -> None:
    endpoint.will(0)
    with pytest.raises(AgentTimeout):
        agent(endpoint, timeout_s=0.3).answer(request())


def test_endpoint_that_is_not_there_is_told() -> None:
    slept: list[float] = []
    one = HttpAgent(DIALECTS["openai"], "m", base_url="http://127.0.0.1:9/v1", sleep=slept.append)
    with pytest.raises(AgentUnavailable, match=r"can't be reached: .*refused \(at try 4 of 4"):
        one.answer(request())
    assert len(slept) == 3


def test_vendor_without_a_key_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AgentUnavailable, match="OPENAI_API_KEY is not set"):
        make_agent("openai:gpt", AgentParameters()).answer(request())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:///etc/passwd", "no http or https address"),
        ("http:///v1", "no http or https address"),
        ("http://h:0/v1", "no http or https address"),
        ("http://h/v 1", "no http or https address"),
        ("http://h:99999999/v1", "Port out of range"),
        ("http://h:port/v1", "Port could not be cast"),
    ],
)
def test_what_is_no_address_is_refused_where_the_agent_is_named(address: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_agent(f"openai:m@{address}", AgentParameters())
    with pytest.raises(ValueError, match=words):
        parse_agent(f"openai:m@{address}")


def test_model_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="is not openai:MODEL"):
        parse_agent("openai:")


# -------------------------------------------------------------------------------- streamed replies


def stream(*events: object) -> bytes:
    told = [f"event: x\r\ndata: {json.dumps(one)}\r\n\r\n" for one in events]
    return (": comment\r\n\r\n" + "".join(told)).encode()


CHUNKS: list[object] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"content": "hel"}}]},
    {"choices": [{"index": 1, "delta": {"content": "another"}}]},
    {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}},
]
EVENTS: list[object] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hel"}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
STREAMED = {"openai": CHUNKS, "anthropic": EVENTS}


@pytest.mark.parametrize("dialect", STREAMED)
@pytest.mark.parametrize("typed", [True, False])
def test_streamed_reply_is_put_together(endpoint: Endpoint, dialect: str, typed: bool) -> None:
    data = stream(*STREAMED[dialect]) + (b"data: [DONE]\n\n" if dialect == "openai" else b"")
    headers = {"Content-Type": "text/event-stream; charset=utf-8"} if typed else {}
    endpoint.will(200, data if typed else data.partition(b"\r\n\r\n")[2], **headers)
    answer = agent(endpoint, dialect).answer(request())
    assert answer.text == "hello"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 5)


@pytest.mark.parametrize("dialect", STREAMED)
def test_streamed_reply_that_was_cut_off_is_told(endpoint: Endpoint, dialect: str) -> None:
    data = stream(*STREAMED[dialect]).replace(b'"stop"', b'"length"')
    data = data.replace(b'"end_turn"', b'"max_tokens"')
    endpoint.will(200, data, **{"Content-Type": "text/event-stream"})
    with pytest.raises(AgentCutOff):
        agent(endpoint, dialect).answer(request())


@pytest.mark.parametrize("dialect", STREAMED)
@pytest.mark.parametrize(
    ("events", "words"),
    [
        (slice(0, 2), "the stream ended before the answer did"),
        ([{"type": "error", "error": {"message": "overloaded"}}], "told of an error: overloaded"),
        ([[1]], "no object"),
    ],
)
def test_stream_that_breaks_off_is_no_answer(
    endpoint: Endpoint, dialect: str, events: Any, words: str
) -> None:
    given = STREAMED[dialect][events] if isinstance(events, slice) else events
    endpoint.will(200, stream(*given), **{"Content-Type": "text/event-stream"})
    with pytest.raises(AgentFailed, match=words):
        agent(endpoint, dialect).answer(request())


# ------------------------------------------------------------ whether it can be asked, beforehand


@pytest.mark.parametrize("dialect", STREAMED)
@pytest.mark.parametrize("status", [200, 404, 405])
def test_endpoint_is_checked_without_asking_a_model(
    endpoint: Endpoint, dialect: str, status: int
) -> None:
    endpoint.will(status, {"data": []})
    agent(endpoint, dialect).check()
    ((path, headers, _),) = endpoint.asked
    assert path == "/v1/models"
    assert "k" in headers.values() or "Bearer k" in headers.values()


@pytest.mark.parametrize("status", [401, 403])
def test_key_that_is_refused_is_told_beforehand(endpoint: Endpoint, status: int) -> None:
    endpoint.will(status, {"error": "bad key"})
    with pytest.raises(AgentUnavailable, match=f"it answered {status}: .*bad key"):
        agent(endpoint).check()


def test_dead_address_is_told_beforehand() -> None:
    with pytest.raises(AgentUnavailable, match="can't be reached"):
        HttpAgent(DIALECTS["openai"], "m", base_url="http://127.0.0.1:9/v1").check()


# ------------------------------------------------------------------------------- it is cancelled


def test_cancelled_call_leaves_a_server_that_is_silent(endpoint: Endpoint) -> None:
    endpoint.will(0)
    before = held()
    error = cancelled_when(lambda: endpoint.asked, lambda: agent(endpoint).answer(request()))
    assert isinstance(error, OperationCancelled)
    assert held() <= before + 1, "the server's own end may still be open"


def test_cancelled_call_takes_no_half_of_an_answer_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent = threading.Event()

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                line.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(OPENAI).encode())
                sent.set()
                while line.recv(65536):  # until the caller hangs up
                    pass

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        one = HttpAgent(DIALECTS["openai"], "m-1", base_url=url, key="k")
        error = cancelled_when(sent.is_set, lambda: one.answer(request()))
        serving.join()
    assert isinstance(error, OperationCancelled)


def test_an_answer_that_is_given_up_leaves_no_socket_open_while_its_error_is_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hung_up = threading.Event()

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                line.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")  # its length is not known
                while line.recv(65536):
                    pass
            hung_up.set()

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        one = HttpAgent(DIALECTS["openai"], "m-1", base_url=url, key="k", timeout_s=0.3)
        with pytest.raises(AgentTimeout) as failed:
            one.answer(request())
        assert hung_up.wait(10)
    assert failed.value.timeout_s == 0.3


def test_cancelled_call_leaves_a_secure_server_that_does_not_shake_hands() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        greeted = threading.Event()

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                greeted.set()
                line.recv(1)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}/v1"
        one = HttpAgent(DIALECTS["openai"], "m-1", base_url=url, key="k")
        error = cancelled_when(greeted.is_set, lambda: one.answer(request()))
        serving.join()
    assert isinstance(error, OperationCancelled)


def is_connecting(port: int) -> bool:
    """Whether a connection to a port of this machine is begun and not answered."""
    with open("/proc/net/tcp") as table:
        next(table)
        ends = [(line.split()[2].rpartition(":")[2], line.split()[3]) for line in table]
    return (f"{port:04X}", "02") in ends


def test_cancelled_call_does_not_wait_for_a_server_that_takes_no_connection() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        with socket.create_connection(server.getsockname()):  # its queue is full
            url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
            one = HttpAgent(DIALECTS["openai"], "m-1", base_url=url, key="k")
            port = server.getsockname()[1]
            error = cancelled_when(lambda: is_connecting(port), lambda: one.answer(request()))
    assert isinstance(error, OperationCancelled)


def test_cancelled_call_does_not_wait_to_ask_again(endpoint: Endpoint) -> None:
    endpoint.will(429, {"error": "slow down"}, **{"Retry-After": "300"})
    one = HttpAgent(DIALECTS["openai"], "m-1", base_url=endpoint.url, key="k")
    error = cancelled_when(lambda: endpoint.asked, lambda: one.answer(request()))
    assert isinstance(error, OperationCancelled)


def test_call_of_an_operation_that_was_cancelled_reaches_no_server(endpoint: Endpoint) -> None:
    token = CancelToken()
    token.cancel()
    with cancellable(token), pytest.raises(OperationCancelled):
        agent(endpoint).answer(request())
    assert endpoint.asked == []
