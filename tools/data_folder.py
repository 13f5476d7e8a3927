"""Where a project keeps its data: the folder `.agentforge` here, or the nearest one above."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

NAME: Final = ".agentforge"


def find_data_folder(start: Path, *, user: int | None = None) -> Path | None:
    """Return the nearest `.agentforge` in `start` or above it, or None.

    A folder above `start` counts only if it belongs to `user` or to the owner of `start`: what a
    stranger puts into a shared directory above must not decide where sessions go.

    Args:
        start: An absolute path.
        user: The user's number; that of this process if None.
    """
    trusted = {os.geteuid() if user is None else user}
    own = _status(start)
    if own is not None:
        trusted.add(own.st_uid)
    for directory in (start, *start.parents):
        found = _status(directory / NAME)
        if found is None or not stat.S_ISDIR(found.st_mode):
            continue
        if directory == start or found.st_uid in trusted:
            return directory / NAME
    return None


def data_folder_above(start: Path) -> Path | None:
    """Return the data folder of the project that `start` is a folder in.

    None means that relative paths do: `start` has a data folder itself, or none is above it.
    """
    found = find_data_folder(start)
    return None if found is None or found.parent == start else found


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
