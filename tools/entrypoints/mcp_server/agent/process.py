"""The process of the small server: it reads until its client leaves or a signal ends it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....base.event_log import get_logger
from ..lines import MAX_MESSAGE_BYTES, READ_BYTES, LineFramer, TooLong, diverted
from .wire import AgentServer

if TYPE_CHECKING:
    from .acts import Acts

_log = get_logger("agentforge.mcp")


def serve_agent(acts: Acts) -> int | None:
    """Serve the client at standard input and output until it leaves or a signal arrives.

    Returns:
        The signal that ended it, or None.
    """
    with (
        diverted(0, os.O_RDONLY) as source,
        diverted(1, os.O_WRONLY) as sink,
        _signals() as (wake, came),
    ):
        server = AgentServer(acts, sink)
        try:
            _read(server, source, sink, wake)
        finally:
            server.close()
    return came[0] if came else None


def _read(server: AgentServer, source: int, sink: int, wake: int) -> None:
    """Pass on the client's lines until it leaves or a signal arrives."""
    framer, poller = LineFramer(), select.poll()
    poller.register(source, select.POLLIN)
    poller.register(wake, select.POLLIN)
    poller.register(sink, 0)  # only its end, which is always reported
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if wake in ready or sink in ready:
            return
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            _log.warning("mcp.input_lost", reason=str(error))
            return
        if not data:
            return
        for frame in framer.feed(data):
            if isinstance(frame, TooLong):
                what = f"a message may have {MAX_MESSAGE_BYTES:,} bytes; it was not acted on"
                server.refuse_line(what)
            elif frame.strip():
                server.receive(frame)


@contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """Yield a descriptor that can be read once an ending signal arrives, and those that arrived.

    The second one of a kind has its usual effect.
    """
    came: list[int] = []
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    former = {}

    def arrived(number: int, _: object) -> None:
        came.append(number)
        signal.signal(number, signal.SIG_DFL)
        os.write(writing, b"!")

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:  # by `nohup`
            former[one] = signal.signal(one, arrived)
    try:
        yield reading, came
    finally:
        for one, before in former.items():
            signal.signal(one, before)
        os.close(reading)
        os.close(writing)
