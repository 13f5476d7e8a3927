"""The Enter key in a server's terminal: each line of standard input triggers an action."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_MOST_BYTES: Final = 4096


def standard_input() -> int | None:
    """Return the descriptor of standard input, or None."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # None, closed, or not a file
        return None


def each_line(fd: int | None, act: Callable[[], None]) -> None:
    """Call `act` in the running event loop for each line from a descriptor, until its end.

    A thread reads the lines, since a regular file or `/dev/null` can't be watched; it ends with the
    process. In the background of a shell it reads nothing, and the process is not stopped.

    Args:
        fd: The descriptor; None gives no lines.
        act: Called in the event loop.
    """
    if fd is None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a read in the background fails instead
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError, RuntimeError):  # no longer our terminal, or the loop has ended
            while given := os.read(fd, _MOST_BYTES):
                if b"\n" in given:
                    loop.call_soon_threadsafe(act)

    threading.Thread(target=read, name="enter-key", daemon=True).start()
