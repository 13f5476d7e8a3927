"""Room at a server for who has its key, whatever others open and leave half-sent.

A connection is a stranger's until a request on it shows the key; where a server has none, until one
is let through. Strangers have few connections
together, and the oldest is closed for a new one; each is closed too when no whole head of a request
came for some seconds. So connections of others are neither waited for nor counted against who has
the key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from attrs import define, field

MAX_STRANGERS: Final = 64
"""How many connections may be open that have not shown the key."""
HEAD_TIMEOUT_S: Final = 10.0
"""How long such a connection stays open without a whole head of a request, in seconds."""


@define
class _Stranger:
    """A connection that has not shown the key."""

    transport: asyncio.Transport
    timer: asyncio.TimerHandle | None = field(default=None)


class ConnectionRoom:
    """The connections to one server that have not shown its key.

    Args:
        most: How many there may be.
        head_timeout_s: How long one may take for the head of a request.
    """

    def __init__(
        self, *, most: int = MAX_STRANGERS, head_timeout_s: float = HEAD_TIMEOUT_S
    ) -> None:
        self._most = most
        self._head_timeout_s = head_timeout_s
        self._strangers: dict[object, _Stranger] = {}  # by the peer's address, the oldest first

    def watched(self, make: Callable[..., Any]) -> Callable[..., asyncio.Protocol]:
        """Return a maker of protocols whose connections have a place here.

        Args:
            make: Makes the protocol of one connection.
        """
        return lambda *given, **named: _Watched(self, make(*given, **named))

    def opened(self, peer: object, transport: asyncio.Transport) -> None:
        """Give a new connection a place, which may be that of the oldest."""
        while len(self._strangers) >= self._most:
            self._close(next(iter(self._strangers)))
        self._strangers[peer] = _Stranger(transport)
        self._wait(peer)

    def heard(self, peer: object, *, has_key: bool) -> None:
        """Record that a whole head came on a connection; what shows the key is no stranger's."""
        if has_key:
            self.closed(peer)
        else:
            self._wait(peer)

    def closed(self, peer: object) -> None:
        """Give up the place of a connection, if it has one."""
        stranger = self._strangers.pop(peer, None)
        if stranger is not None and stranger.timer is not None:
            stranger.timer.cancel()

    def close(self) -> None:
        """Close the connections that are here, so that a server that stops waits for none."""
        for peer in list(self._strangers):
            self._close(peer)

    def _wait(self, peer: object) -> None:
        stranger = self._strangers.get(peer)
        if stranger is None:
            return
        if stranger.timer is not None:
            stranger.timer.cancel()
        loop = asyncio.get_running_loop()
        stranger.timer = loop.call_later(self._head_timeout_s, self._close, peer)

    def _close(self, peer: object) -> None:
        transport = self._strangers[peer].transport
        self.closed(peer)
        transport.abort()


class _Watched(asyncio.Protocol):
    """A protocol as it was made, whose connection has a place in a room."""

    def __init__(self, room: ConnectionRoom, inner: asyncio.Protocol) -> None:
        self._room = room
        self._inner = inner
        self._peer: object = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Host and port alone, as a request's scope has them: of IPv6 there are two numbers more.
        self._peer = tuple((transport.get_extra_info("peername") or ())[:2])
        self._room.opened(self._peer, cast("asyncio.Transport", transport))
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.closed(self._peer)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
