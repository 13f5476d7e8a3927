"""Read files that the command line names, up to a limit."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import typer

STANDARD_INPUT = Path("-")


def read_given(path: Path, *, option: str, most: int) -> bytes:
    """Return the content of a file, or of standard input if its name is `-`.

    Args:
        path: The file, which may be a pipe.
        option: The option that names it, for the error message.
        most: The largest content, in bytes.

    Raises:
        typer.BadParameter: It can't be read, or its content is larger.
    """
    too_large = typer.BadParameter(
        f"{path} has more than {most:,} bytes, the limit", param_hint=option
    )
    try:
        with ExitStack() as opened:
            stream: BinaryIO = sys.stdin.buffer
            if path != STANDARD_INPUT:
                stream = opened.enter_context(path.open("rb"))
                if os.fstat(stream.fileno()).st_size > most:
                    raise too_large
            data = stream.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(f"{path} can't be read: {reason}", param_hint=option) from error
    if len(data) > most:
        raise too_large
    return data


def read_given_text(path: Path, *, option: str, most: int) -> str:
    """Return the text of a file, as `read_given` returns its bytes.

    Raises:
        typer.BadParameter: It can't be read, is not UTF-8, or its content is larger.
    """
    data = read_given(path, option=option, most=most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{path} is not UTF-8 at byte {error.start}", param_hint=option
        ) from error
