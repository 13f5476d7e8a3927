"""Folders that gates mount: each is kept for the user, and is whole or not there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...workflows.gate_port import GateUnavailable


@contextmanager
def staging(directory: Path, name: str) -> Iterator[Path]:
    """Have a folder to build in, which is removed at the end of the block.

    Args:
        directory: Where such folders are kept; it is made if it is missing.
        name: What is built, for the folder's name and for messages.

    Raises:
        GateUnavailable: There is nowhere to keep it.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=directory) as folder:
            yield Path(folder)
    except OSError as error:
        raise GateUnavailable(
            f"the {name.replace('-', ' ')} can't be kept in {directory}: {error.strerror}; free "
            "the disk or fix its permissions, or name another place with XDG_CACHE_HOME"
        ) from error


def put_in_place(built: Path, place: Path) -> None:
    """Give a folder its name, unless another process was quicker."""
    try:
        built.rename(place)
    except OSError:
        if not place.is_dir():
            raise
