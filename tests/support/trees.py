"""What a folder holds, as a value that tests compare."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def tree_of(folder: Path, *, but: tuple[str, ...] = ()) -> dict[bytes, tuple[str, bytes | str]]:
    """Return all that is in a folder: the type and mode of each path, and its content or target."""
    found: dict[bytes, tuple[str, bytes | str]] = {}
    root = os.fsencode(folder)
    for at, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(at, name)
            relative = os.path.relpath(path, root)
            if os.fsdecode(name) in but:
                continue
            status = os.lstat(path)
            about = stat.filemode(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", os.fsdecode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = (about, "")
            else:
                with open(path, "rb") as file:
                    found[relative] = (about, file.read())
        folders[:] = [name for name in folders if os.fsdecode(name) not in but]
    return found
