"""Bubblewrap's report on a jail, on a descriptor of its own: one JSON document per line."""

from __future__ import annotations

import json
from typing import Any, Final

_MOST: Final = 1 << 16


class StatusReport:
    """Parses the report as it arrives.

    A command can't write it: bubblewrap closes the descriptor before it starts the command.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._taken = 0
        self.child: int | None = None
        """The first process of the jail, by the host's number."""
        self.exit_code: int | None = None
        """The command's exit code; None while it runs, and if it was never started."""

    def feed(self, data: bytes) -> None:
        """Add a piece of the report."""
        self._taken += len(data)
        if self._taken > _MOST:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            document = _document(line)
            child, code = document.get("child-pid"), document.get("exit-code")
            if self.child is None and isinstance(child, int) and child > 1:
                self.child = child
            if isinstance(code, int):
                self.exit_code = code


def _document(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
