"""What an agent program is at, as far as what it prints says it; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, field

_KEYS: Final = ("command", "file_path", "path", "title", "text", "message", "tool", "name")
"""Where the programs' JSON has what a person would want to read, the best first."""
_CHARS: Final = 200
_MOST: Final = 1 << 16
_DEPTH: Final = 6


@define
class Activity:
    """Reads a program's output as it comes, and passes on what each line says.

    Attributes:
        tell: Is called with one line of text.
    """

    tell: Callable[[str], None]
    _rest: bytes = field(default=b"", init=False)

    def feed(self, piece: bytes) -> None:
        """Read a piece; an unfinished line waits for its end."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[-_MOST:]
        for line in reversed(lines):
            said = activity_of(line.decode("utf-8", "replace"))
            if said is not None:
                self.tell(said)
                return


def activity_of(line: str) -> str | None:
    """Return what a line says: of JSON its command, file or message; None for nothing."""
    found: str | None = line
    if line.lstrip().startswith("{"):
        try:
            found = next(_texts(json.loads(line), _DEPTH), None)
        except (ValueError, RecursionError):
            found = None
    plain = " ".join((found or "").split())[:_CHARS]
    return plain or None


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, list) and depth:
        for one in value:
            yield from _texts(one, depth - 1)
    if isinstance(value, dict) and depth:
        own = (value.get(key) for key in _KEYS)
        yield from (one for one in own if isinstance(one, str) and one.strip())
        for one in value.values():
            yield from _texts(one, depth - 1)
