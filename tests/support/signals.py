"""Signals as a process has them that nobody started in the background."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def usual_signals() -> Iterator[None]:
    """Start a process in this block, and it ignores neither Ctrl-C nor a hang-up.

    Whoever runs the tests in the background, or with nohup, has told them and so their children to
    ignore these; what is started here is to be ended by them. For the main thread.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    ignored = [number for number, what in before.items() if what is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
