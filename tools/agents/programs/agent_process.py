"""The process of the agent program that calls a hook, so that it is known whether it still runs."""

from __future__ import annotations

import os
from typing import Final

_SHELLS: Final = frozenset({"sh", "dash", "bash", "zsh", "busybox"})
_MOST_SHELLS: Final = 4


def calling_process(process: int = 0) -> list[int]:
    """Return the id and the start time of the program that called this hook, through shells or not.

    Empty if the system does not say it. A process that is given is looked at instead.
    """
    pid = process or os.getppid()
    for _ in range(_MOST_SHELLS):
        found = _status(pid)
        if found is None:
            return []
        name, parent, started = found
        if name not in _SHELLS:
            return [pid, started]
        pid = parent
    return []


def is_running(process: list[int]) -> bool:
    """Return whether a process still runs; its id may belong to another one by now."""
    if len(process) != 2:
        return False
    found = _status(process[0])
    return found is not None and found[2] == process[1]


def _status(pid: int) -> tuple[str, int, int] | None:
    """Return a process's name, its parent and its start time; None if it ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
        fields = after.split()
        if fields[0] in {"Z", "X"}:
            return None
        return before.partition("(")[2], int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
