"""Limit on a server's connections without its key, so that clients with the key have room.

A connection is a stranger's until a request on it shows the key or, if the server has none, until a
request is let through. Strangers share few connections: a new one closes the oldest, and each is
closed if the head of a request is not complete within some seconds. So clients with the key never
wait for strangers' connections, which don't count against them.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from attrs import define, field

_Kind = TypeVar("_Kind", bound=asyncio.Protocol)

MAX_STRANGERS: Final = 64
"""How many connections may be open without having shown the key."""
HEAD_TIMEOUT_S: Final = 10.0
"""How long such a connection stays open without a complete request head, in seconds."""


@define
class _Stranger:
    """Connection that has not shown the key."""

    transport: asyncio.Transport
    timer: asyncio.TimerHandle | None = field(default=None)


class ConnectionRoom:
    """The connections to one server that have not shown its key.

    Args:
        most: How many there may be.
        head_timeout_s: How long one may take for the head of a request, in seconds.
    """

    def __init__(
        self, *, most: int = MAX_STRANGERS, head_timeout_s: float = HEAD_TIMEOUT_S
    ) -> None:
        self._most = most
        self._head_timeout_s = head_timeout_s
        self._strangers: dict[object, _Stranger] = {}  # by the peer's address, the oldest first

    def watched(self, kind: type[_Kind]) -> type[_Kind]:
        """Return a protocol class whose connections are counted here."""
        room = self

        class Watched(kind):  # type: ignore[valid-type,misc]  # a base that is a variable
            """The protocol, with its connections reported."""

            def connection_made(self, transport: asyncio.Transport) -> None:
                # Host and port alone, as in a request's scope: an IPv6 peer has two more numbers.
                self._peer_in_room = (transport.get_extra_info("peername") or ())[:2]
                room.opened(self._peer_in_room, transport)
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                room.closed(self._peer_in_room)
                super().connection_lost(exc)

        return Watched

    def opened(self, peer: object, transport: asyncio.Transport) -> None:
        """Add a new connection; close the oldest if there are too many."""
        while len(self._strangers) >= self._most:
            self._close(next(iter(self._strangers)))
        self._strangers[peer] = _Stranger(transport)
        self._wait(peer)

    def heard(self, peer: object, *, has_key: bool) -> None:
        """Record a complete request head; stop counting a connection that shows the key."""
        if has_key:
            self.closed(peer)
        else:
            self._wait(peer)

    def closed(self, peer: object) -> None:
        """Remove a connection, if it is counted here."""
        stranger = self._strangers.pop(peer, None)
        if stranger is not None and stranger.timer is not None:
            stranger.timer.cancel()

    def close(self) -> None:
        """Close the counted connections, so that a stopping server does not wait for them."""
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
