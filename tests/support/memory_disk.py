"""A place in memory for what tests write: a sync there takes no time."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.support.soak import SOAKING

_MEMORY: Final = Path("/dev/shm")
_ENOUGH_BYTES: Final = 4 << 30
"""For all workers of a run; they use a tenth of it."""


@functools.cache
def memory_disk() -> Path | None:
    """Return this process's directory in memory; None where there is little, and in long campaigns.

    `remove_memory_disk` removes it. The next run removes what a killed process left.
    """
    if SOAKING or not _has_room():
        return None
    for left in _MEMORY.glob("agentforge-tests-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"agentforge-tests-{os.getpid()}-", dir=_MEMORY))


def remove_memory_disk() -> None:
    if memory_disk.cache_info().currsize and (place := memory_disk()):
        shutil.rmtree(place, ignore_errors=True)


def _has_room() -> bool:
    if not os.access(_MEMORY, os.W_OK):
        return False
    room = os.statvfs(_MEMORY)
    return room.f_bavail * room.f_frsize >= _ENOUGH_BYTES
