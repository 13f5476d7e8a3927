"""Console at standard output: the terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final

from rich.console import Console

_PIPE_WIDTH: Final = 1000


class OutputConsole(Console):
    """Console that notifies its owner when the reader closes its end, instead of raising.

    Colour, if allowed, is used on a terminal only.
    """

    def __init__(self, *, color: bool, on_broken_pipe: Callable[[], None]) -> None:
        terminal = bool(getattr(sys.stdout, "isatty", lambda: False)())
        super().__init__(
            color_system="auto" if color else None,
            markup=False,
            highlight=False,
            emoji=False,
            width=None if terminal or os.environ.get("COLUMNS") else _PIPE_WIDTH,
        )
        self._notify_owner = on_broken_pipe

    def on_broken_pipe(self) -> None:
        """Stop writing and notify the owner."""
        self.quiet = True
        self._notify_owner()
