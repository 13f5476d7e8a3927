"""A connection pooler before a PostgreSQL server, as PgBouncer is in transaction mode.

Each client has two connections to the server, and every transaction gets the other one. What
poolers refuse at the beginning of a connection is refused, and the number of the server's process
is hidden.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

_ENCRYPTION = (80877103, 80877104)
_CANCEL = 80877102


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _message(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return a message's kind, and all of it."""
    begun = _exactly(connection, 5)
    (size,) = struct.unpack("!i", begun[1:])
    return begun[:1], begun + _exactly(connection, size - 4)


def _beginning(client: socket.socket) -> bytes:
    """Return the first message of a client, unencrypted."""
    while True:
        begun = _exactly(client, 8)
        size, code = struct.unpack("!ii", begun)
        rest = _exactly(client, size - 8)
        if code == _CANCEL:
            raise EOFError
        if code not in _ENCRYPTION:
            return begun + rest
        client.sendall(b"N")


class Pooler:
    """A pooler that listens on this machine alone."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = ExitStack()
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=[client], daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve_one(self, client: socket.socket) -> None:
        with suppress(EOFError, OSError), ExitStack() as held:
            held.enter_context(closing(client))
            begun = _beginning(client)
            if b"\0options\0" in begun:
                reason = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                client.sendall(b"E" + struct.pack("!i", len(reason) + 4) + reason)
                return
            servers = []
            for number in range(2):
                server = held.enter_context(closing(socket.socket(socket.AF_UNIX)))
                server.connect(self._server)
                server.sendall(begun)
                self._until_ready(server, None if number else client, hidden=True)
                servers.append(server)
            while True:
                kind, message = _message(client)
                if kind == b"X":
                    return
                servers[0].sendall(message)
                if kind in (b"Q", b"S") and self._until_ready(servers[0], client) == b"I":
                    servers.reverse()

    @staticmethod
    def _until_ready(
        server: socket.socket, client: socket.socket | None, *, hidden: bool = False
    ) -> bytes:
        """Hand on what the server says until it is ready, and return the transaction's state."""
        while True:
            kind, message = _message(server)
            if kind == b"K" and hidden:
                message = message[:5] + os.urandom(len(message) - 5)
            if client is not None:
                client.sendall(message)
            if kind == b"Z":
                return message[5:6]


@contextmanager
def transaction_pooler(server_socket: str) -> Iterator[Pooler]:
    """Run a pooler before a server.

    Args:
        server_socket: The path of the server's socket.
    """
    pooler = Pooler(server_socket)
    thread = threading.Thread(target=pooler.serve, daemon=True)
    thread.start()
    try:
        yield pooler
    finally:
        pooler.close()
        thread.join()
