"""The faults of a document, each with its path, its line and a sentence; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

MAX_FAULTS: Final = 100
"""The maximum of faults collected for one document; later ones are dropped."""
_NO_LINES: Final[Mapping[str, int]] = MappingProxyType({})


class Faults:
    """Collects the faults of a document.

    Args:
        lines: The lines of paths, from 1, for values that do not know their own.
    """

    def __init__(self, lines: Mapping[str, int] = _NO_LINES) -> None:
        self._lines = lines
        self._found: list[tuple[int, str]] = []

    def add(self, path: str, problem: str, line: int = 0) -> None:
        """Add a fault.

        Args:
            path: The field, such as `context.files[1]`; empty for the document itself.
            problem: What is wrong.
            line: From 1; 0 means the line of the nearest part of the path that has one.
        """
        if self.is_full:
            return
        line = line or self._line_of(path)
        text = f"{path}: {problem}" if path else problem
        self._found.append((line, f"line {line}: {text}" if line else text))

    def _line_of(self, path: str) -> int:
        line = 0
        while self._lines and path and not line:
            line = self._lines.get(path, 0)
            path = path.rpartition("[" if path.endswith("]") else ".")[0]
        return line

    @property
    def is_full(self) -> bool:
        """Whether the maximum is reached; further faults are dropped."""
        return len(self._found) >= MAX_FAULTS

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> list[str]:
        """Return the faults in the order of their lines."""
        return [text for _, text in sorted(self._found, key=lambda one: one[0])]


def meant(name: str, known: Collection[str]) -> str:
    """Return a hint at the closest known name, or at all of them."""
    import difflib  # only a document with a fault needs it

    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"


def short(text: str) -> str:
    """Return a text shortened for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."
