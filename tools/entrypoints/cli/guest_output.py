"""The output of code in the sandbox: to a terminal made safe and as it comes, else as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from .errors import OutputLost
from .output import discard, remark
from .text import safe_lines

if TYPE_CHECKING:
    from ...sandbox import SandboxResult

STREAMS: Final = ("stdout", "stderr")


def write_bytes(stream: TextIO, data: bytes) -> None:
    """Write bytes as they are.

    Raises:
        OutputLost: They can't be written; a reader that went away is none of that.
    """
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.flush()
    except BrokenPipeError:
        discard(stream)
    except OSError as error:
        discard(stream)
        raise OutputLost(error) from error


def write_safely(stream: TextIO, text: str) -> None:
    """Write text to a terminal, with everything that it could act on spelled out.

    Raises:
        OutputLost: It can't be written; a reader that went away is none of that.
    """
    try:
        stream.write(safe_lines(text))
        stream.flush()
    except BrokenPipeError:
        discard(stream)
    except OSError as error:
        discard(stream)
        raise OutputLost(error) from error


class GuestOutput:
    """Hands on what one execution prints.

    A terminal is shown each line when it is printed. Anything else is given the whole output at
    the end, from the result: it is complete, and what runs makes no call for each line.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {
            name: [] for name in STREAMS if getattr(sys, name).isatty()
        }

    def callback(self, name: str) -> Callable[[str], object] | None:
        """Return who is to be told of a stream as it comes, if anybody is."""
        if name not in self._shown:
            return None

        def tell(text: str) -> None:
            self._shown[name].append(text)
            write_safely(getattr(sys, name), text)

        return tell

    def finish(self, result: SandboxResult) -> None:
        """Write what the result has and nobody was shown."""
        for name in STREAMS:
            whole: str = getattr(result, name)
            if name not in self._shown:
                write_bytes(getattr(sys, name), whole.encode("utf-8", "replace"))
                continue
            shown = "".join(self._shown[name])
            if not whole.startswith(shown):
                remark(f"note: {name} was written to by other ways too; this is all of it:")
                shown = ""
            write_safely(getattr(sys, name), whole[len(shown) :])
            if whole and not whole.endswith("\n"):
                write_safely(getattr(sys, name), "\n")
