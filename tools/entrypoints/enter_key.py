"""Enter in the terminal of a server: a line of its standard input asks it for something."""

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
    """Return the descriptor of standard input; None where there is none."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # None, closed, or no file
        return None


def each_line(fd: int | None, act: Callable[[], None]) -> None:
    """Have the running event loop act for each line that comes from a descriptor, until its end.

    A thread waits for them, since a regular file or `/dev/null` can't be watched; it ends with the
    process. In the background of a shell nothing is read, and the process is not stopped for it.

    Args:
        fd: The descriptor; of None, no line comes.
        act: What is done, in the event loop.
    """
    if fd is None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a read in the background fails instead
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError, RuntimeError):  # no terminal of ours any more; the loop has ended
            while given := os.read(fd, _MOST_BYTES):
                if b"\n" in given:
                    loop.call_soon_threadsafe(act)

    threading.Thread(target=read, name="enter-key", daemon=True).start()
