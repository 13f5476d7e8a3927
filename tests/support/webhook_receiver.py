"""A receiver of webhooks on this machine, which answers as a test says, well or badly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@frozen
class Received:
    """A request: its first line, its headers in small letters, and its body."""

    line: str
    headers: dict[str, str]
    body: bytes


Behave = Callable[[socket.socket, int], None]
"""Answers a request; it is given the connection, and how many there were before."""


@define
class Receiver:
    """Where a receiver listens, and what it was sent."""

    url: str
    received: list[Received] = field(factory=list)
    leaving: threading.Event = field(factory=threading.Event)


def answers(*said: bytes) -> Behave:
    """Answer with these in turn, with the last one for ever."""

    def behave(connection: socket.socket, number: int) -> None:
        connection.sendall(said[min(number, len(said) - 1)])

    return behave


def status(code: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} Said", *headers, "", ""]
    return "\r\n".join(lines).encode()


@contextmanager
def receiving(behave: Behave | None = None) -> Iterator[Receiver]:
    """Listen on a free port of the loopback device until the block ends; take all by default."""
    act = behave if behave is not None else answers(OK)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = Receiver(f"http://127.0.0.1:{listener.getsockname()[1]}/hook?a=1")
        threads: list[threading.Thread] = []

        def serve(connection: socket.socket, number: int) -> None:
            with connection:
                try:
                    receiver.received.append(_request(connection))
                    act(connection, number)
                except OSError:
                    return  # the sender has left

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if receiver.leaving.is_set():
                    connection.close()
                    return
                thread = threading.Thread(target=serve, args=(connection, len(threads)))
                threads.append(thread)
                thread.start()

        acceptor = threading.Thread(target=listen)
        acceptor.start()
        try:
            yield receiver
        finally:
            receiver.leaving.set()
            with socket.create_connection(listener.getsockname()):
                pass
            acceptor.join()
            for one in threads:
                one.join()


def _request(connection: socket.socket) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            raise OSError("the sender has left")
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    line, *rest = head.decode().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)
    }
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65_536)
    return Received(line, headers, body)
