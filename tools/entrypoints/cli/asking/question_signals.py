"""Let signals end a command that waits for a person, so that its question can be withdrawn."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Terminated(BaseException):
    """A signal requested the end of this process.

    Attributes:
        number: The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Run the block; SIGTERM and SIGHUP end it with `Terminated`.

    A signal that already has a handler or is ignored (nohup) is left alone. Outside the main
    thread, where Python runs no handlers, all are left alone.
    """

    def end(number: int, _: object) -> None:
        raise Terminated(number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) is signal.SIG_DFL:
                former[one] = signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


def end_by(number: int) -> None:
    """End this process as the signal would have."""
    sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
