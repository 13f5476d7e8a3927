"""One POST to receivers of every kind: it ends in its time, and reads no more than it needs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from agentforge_sessions.integrations.observers.delivery import WebhookResponse
from agentforge_sessions.integrations.observers.http_post import (
    MAX_HEAD_BYTES,
    post,
    seconds_to_wait,
)
from tests.support.promptness import PATIENCE_S
from tests.support.webhook_receiver import OK, Behave, answers, receiving, status


def said_by(behave: Behave, *, timeout_s: float = PATIENCE_S) -> WebhookResponse:
    with receiving(behave) as receiver:
        return post(urlsplit(receiver.url), b'{"a":1}', {"X-One": "1"}, timeout_s=timeout_s)


def test_a_request_arrives_as_it_was_sent() -> None:
    with receiving() as receiver:
        answer = post(urlsplit(receiver.url), b'{"a":1}', {"X-One": "1"}, timeout_s=PATIENCE_S)
    [request] = receiver.received
    assert answer == WebhookResponse(status=204)
    assert request.line == "POST /hook?a=1 HTTP/1.1"
    assert (request.body, request.headers["x-one"]) == (b'{"a":1}', "1")


def test_an_answer_that_only_says_that_one_is_to_come_is_passed_over() -> None:
    assert said_by(answers(status(100) + status(103, "Link: x") + OK)) == WebhookResponse(
        status=204
    )


def test_a_body_without_end_is_not_read() -> None:
    def behave(connection: socket.socket, _: int) -> None:
        connection.sendall(status(200, "Content-Length: 10737418240"))
        while True:  # until the sender has left
            connection.sendall(b"x" * 65_536)

    assert said_by(behave) == WebhookResponse(status=200)


def test_a_redirect_is_not_followed() -> None:
    with receiving() as other:
        for where in (other.url, "file:///etc/passwd", "http://169.254.169.254/latest"):
            answer = said_by(answers(status(307, f"Location: {where}")))
            assert answer.in_words == "it answered 307, and redirects are not followed"
    assert not other.received


def slow(piece: bytes) -> Behave:
    """Say a byte now and then, so that no single read takes long."""

    def behave(connection: socket.socket, _: int) -> None:
        connection.settimeout(0.02)
        while True:
            connection.sendall(piece)
            try:
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                pass

    return behave


def hang(connection: socket.socket, _: int) -> None:
    connection.recv(1)  # until the sender has left


@pytest.mark.parametrize("behave", [hang, slow(b"H")], ids=["hangs", "drips"])
def test_what_takes_too_long_ends_in_time(behave: Behave) -> None:
    assert said_by(behave, timeout_s=0.3) == WebhookResponse(
        status=0, problem="no answer within 0.3 s"
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "it closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "what it answered is not HTTP"),
        (b"HTTP/1.1 ok\r\n\r\n", "what it answered is not HTTP"),
        (b"HTTP/1.1 \xb2\xb2 x\r\n\r\n", "what it answered is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD_BYTES + 1),
            f"the head of its answer has more than {MAX_HEAD_BYTES:,} bytes",
        ),
    ],
)
def test_what_is_no_answer_is_told_as_such(said: bytes, problem: str) -> None:
    assert said_by(answers(said)) == WebhookResponse(status=0, problem=problem)


def test_an_address_at_which_nothing_listens_is_told_as_such() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody else gets the port, and nothing listens
        port = bound.getsockname()[1]
        answer = post(urlsplit(f"http://127.0.0.1:{port}/token"), b"", {}, timeout_s=PATIENCE_S)
    assert answer == WebhookResponse(status=0, problem="nothing listens there")


def test_a_broken_connection_is_told_and_names_no_path() -> None:
    def reset(connection: socket.socket, _: int) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    answer = said_by(reset)
    assert answer.status == 0
    assert answer.problem
    assert "hook" not in answer.problem


def test_https_is_not_spoken_without_a_certificate() -> None:
    def behave(connection: socket.socket, _: int) -> None:
        connection.sendall(OK)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                behave(connection, 0)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        answer = post(urlsplit(f"https://127.0.0.1:{port}/"), b"", {}, timeout_s=PATIENCE_S)
        thread.join()
    assert answer.status == 0
    assert "SSL" in answer.problem


NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        *((None, None), ("120", 120.0), ("-5", 0.0), ("nan", None), ("inf", None)),
        *(("soon", None), ("Sun, 01 Mar 2026 09:31:00 GMT", 60.0)),
        ("Sun, 01 Mar 2026 09:00:00 GMT", 0.0),
    ],
)
def test_how_long_a_receiver_asks_to_wait(said: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(said, NOW) == seconds


def test_a_receiver_that_asks_to_wait_is_heard() -> None:
    assert said_by(answers(status(503, "Retry-After: 7"))) == WebhookResponse(
        status=503, wait_s=7.0
    )


def test_headers_that_can_not_be_read_do_not_hide_the_status() -> None:
    said: Callable[..., bytes] = status
    answer = said_by(answers(said(200, *(f"X-{one}: 1" for one in range(300)))))
    assert answer == WebhookResponse(status=200)
