"""Where a project keeps its data: the folder `.agentforge` here, or the nearest one above."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

NAME: Final = ".agentforge"
_REPOSITORY: Final = ".git"


def find_data_folder(
    start: Path, *, user: int | None = None, home: Path | None = None
) -> Path | None:
    """Return the nearest `.agentforge` in `start` or above it, or None.

    The search ends with the root of the repository that `start` is in, or with the user's home:
    what is above belongs to other projects. A folder above `start` counts only if it belongs to
    `user` or to the owner of `start`: what a stranger puts into a shared directory above must not
    decide where sessions go.

    Args:
        start: An absolute path.
        user: The user's number; that of this process if None.
        home: The user's own directory; the one of this user if None.
    """
    trusted = {os.geteuid() if user is None else user}
    own = _status(start)
    if own is not None:
        trusted.add(own.st_uid)
    last = os.path.realpath(os.path.expanduser("~") if home is None else home)
    for directory in (start, *start.parents):
        found = _status(directory / NAME)
        if (
            found is not None
            and stat.S_ISDIR(found.st_mode)
            and (directory == start or found.st_uid in trusted)
        ):
            return directory / NAME
        if is_repository(directory) or str(directory) == last:
            return None
    return None


def data_folder_above(start: Path) -> Path | None:
    """Return the data folder of the project that `start` is a folder in.

    None means that relative paths do: `start` has a data folder itself, or none is above it.
    """
    found = find_data_folder(start)
    return None if found is None or found.parent == start else found


def is_repository(directory: Path) -> bool:
    """Return whether a directory is the root of a repository, or of a work tree of one."""
    return os.path.lexists(directory / _REPOSITORY)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
