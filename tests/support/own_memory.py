"""By how much this process grows."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


@contextmanager
def growth_of_memory() -> Iterator[list[float]]:
    """By how many MiB this process grew at most within the block, at the end of the list."""
    start, most = _resident_mib(), [0.0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            most.append(max(most[-1], _resident_mib() - start))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()
