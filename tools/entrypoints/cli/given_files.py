"""Files that a person names on the command line, read up to a limit."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

STANDARD_INPUT = Path("-")


def read_given(path: Path, *, option: str, most: int) -> bytes:
    """Return what a file holds, or standard input where its name is `-`.

    Args:
        path: The file; a pipe will do.
        option: The option that names it, for the message.
        most: The most that it may hold, in bytes.

    Raises:
        typer.BadParameter: It can't be read, or holds more.
    """
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(most + 1)
        else:
            with path.open("rb") as stream:
                data = stream.read(most + 1)
    except OSError as error:
        raise typer.BadParameter(
            f"{path} can't be read: {error.strerror or error}", param_hint=option
        ) from error
    if len(data) > most:
        raise typer.BadParameter(
            f"{path} has more than {most:,} bytes, the limit", param_hint=option
        )
    return data
