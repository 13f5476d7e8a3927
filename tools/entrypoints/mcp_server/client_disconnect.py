"""How a call notices that the HTTP exchange that carries it is over.

A client that disconnects from a stateful HTTP session leaves its calls running in the session, by
the protocol's own rule. Here nobody could fetch such a call's answer later, so it is cancelled: the
application around the SDK's marks each exchange, and sets the mark when the exchange ends, however
it does.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import anyio

_KEY: Final = "agentforge.exchange_over"


def mark_exchange(scope: MutableMapping[str, Any]) -> anyio.Event:
    """Mark an ASGI exchange and return the event to set when it is over."""
    over = anyio.Event()
    scope[_KEY] = over
    return over


def exchange_over(request: object) -> anyio.Event | None:
    """Return the event that tells that the exchange of `request` is over; None without HTTP."""
    scope = getattr(request, "scope", None)
    over = scope.get(_KEY) if isinstance(scope, MutableMapping) else None
    return over if isinstance(over, anyio.Event) else None
