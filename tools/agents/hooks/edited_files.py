"""The project files that an event reports as written by the agent."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from ..programs.hook_event import HookEvent
from .recording import RecordedEdit

_MAX_HASHED_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024


def edited_files(event: HookEvent, project: Path) -> list[RecordedEdit]:
    """Return the files inside the project, relative to it, each with its digest."""
    if not event.edited:
        return []
    root = os.path.realpath(project)
    found = []
    for name, made in event.edited:
        if "\0" in name:
            continue
        path = os.path.realpath(os.path.join(event.directory or root, name))
        if path.startswith(f"{root}{os.sep}"):
            relative = os.path.relpath(path, root)
            found.append(RecordedEdit(relative, "created" if made else "modified", _digest(path)))
    return found


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a regular file that is not too large, or None."""
    import hashlib  # loads a large library

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_HASHED_BYTES:
            return None
        digest = hashlib.sha256()
        while piece := os.read(fd, _PIECE_BYTES):
            digest.update(piece)
        return digest.hexdigest()
    except OSError:
        return None
    finally:
        os.close(fd)
