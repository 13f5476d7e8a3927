"""An HTTP connection that another thread can hang up at any step."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import suppress


class HangUpConnection(http.client.HTTPConnection):
    """A connection whose thread can be freed from a server that is silent or unreachable.

    After `hang_up`, from any thread, the wait of the connection's own thread ends soon, with an
    `OSError` or an incomplete answer.
    """

    def __init__(
        self, host: str, port: int | None, *, timeout: float, secure: ssl.SSLContext | None
    ) -> None:
        """Remember the server; nothing is connected yet.

        Args:
            host: Its name or address.
            port: Its port; the protocol's if None.
            timeout: The longest wait for each step, in seconds.
            secure: The context of HTTPS; plain HTTP if None.
        """
        if secure is not None:
            self.default_port = http.client.HTTPS_PORT
        super().__init__(host, port, timeout=timeout)
        self._secure = secure
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._hung_up = False

    def hang_up(self) -> None:
        """End the connection's current wait; never blocks."""
        with self._lock:
            self._hung_up = True
            if self._line is not None:
                # An answer without a length still has the socket after the connection was closed.
                with suppress(OSError):  # it is not connected, or closed itself
                    # On a TLS socket, `shutdown` would take its state away from the reading thread.
                    socket.socket.shutdown(self._line, socket.SHUT_RDWR)

    def connect(self) -> None:
        """Connect to the first of the server's addresses that answers.

        Raises:
            OSError: No address answers, or the connection was hung up.
        """
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for left, (family, kind, protocol, _, address) in enumerate(found, 1 - len(found)):
            line = self._opened(socket.socket(family, kind, protocol))
            try:
                line.connect(address)
                break
            except OSError:
                line.close()
                if not left or self._hung_up:
                    raise
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._secure is not None:
            line = self._encrypted(line, self._secure)
        self.sock = line

    def _opened(self, line: socket.socket) -> socket.socket:
        """Make a socket the one that `hang_up` ends."""
        line.settimeout(self.timeout)
        with self._lock:
            self._line = line
            if not self._hung_up:
                return line
        line.close()
        raise ConnectionAbortedError("the connection was hung up")

    def _encrypted(self, plain: socket.socket, secure: ssl.SSLContext) -> socket.socket:
        line = secure.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
        self._opened(line)
        try:
            line.do_handshake()
        except BaseException:
            line.close()
            raise
        return line
