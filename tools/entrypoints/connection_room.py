"""Room at a server for who has its key, whatever others open and leave half-sent.

A connection is a stranger's until a request on it shows the key; where a server has none, until one
is let through. Strangers have few connections
together, and the oldest is closed for a new one; each is closed too when no whole head of a request
came for some seconds. So connections of others are neither waited for nor counted against who has
the key.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from attrs import define, field

_Kind = TypeVar("_Kind", bound=asyncio.Protocol)

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

    def watched(self, kind: type[_Kind]) -> type[_Kind]:
        """Return a protocol whose connections have a place here."""
        room = self

        class Watched(kind):  # type: ignore[valid-type,misc]  # a base that is a variable
            """The protocol, which reports its connection."""

            def connection_made(self, transport: asyncio.Transport) -> None:
                # Host and port alone, as a request's scope has them: IPv6 has two numbers more.
                self._peer_in_room = (transport.get_extra_info("peername") or ())[:2]
                room.opened(self._peer_in_room, transport)
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                room.closed(self._peer_in_room)
                super().connection_lost(exc)

        return Watched

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
