"""What a program prints while it runs, for whoever asked to hear it in this thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_listener: Final[ContextVar[Callable[[bytes], None] | None]] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[bytes], None]) -> Iterator[None]:
    """Call a function with each piece of standard output of the programs that the block runs."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def hear(piece: bytes) -> None:
    """Pass on a piece of a running program's standard output."""
    listener = _listener.get()
    if listener is not None:
        listener(piece)
