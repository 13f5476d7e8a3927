"""The name by which all machines of a fleet know a directory of sessions.

It is random and stored in the directory. A copy of the directory is another place, since its
contents become outdated: the name is valid only for the directory that it was created in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ...base.files import (
    AtomicFileWriter,
    DirectoryLock,
    FileSystem,
    ReadError,
    make_durable_directory,
    read_regular_file,
)

PLACE_FILE: Final = ".place"
_MAX_BYTES: Final = 4096
_ID: Final = re.compile(r"[0-9a-f]{32}")


def _random_id() -> str:
    return os.urandom(16).hex()


def place_of(base: Path, fs: FileSystem, *, token: Callable[[], str] = _random_id) -> str:
    """Return the name of a directory of sessions, creating it the first time.

    Args:
        base: The directory; it is created if it is missing.
        fs: The file system.
        token: Returns random names of 32 hexadecimal digits.

    Raises:
        WriteError: The disk or its permissions.
    """
    found = _read(fs, base)
    if found is not None:
        return found
    make_durable_directory(fs, base)
    with DirectoryLock(fs, base, follow=True) as lock:
        found = _read(fs, base)
        if found is None:
            found = token()
            said = {"schema_version": 1, "place": found, "inode": os.stat(base).st_ino}
            with AtomicFileWriter(base / PLACE_FILE, fs=fs, directory_fd=lock.fd) as file:
                file.write(json.dumps(said) + "\n")
    return found


def _read(fs: FileSystem, base: Path) -> str | None:
    """Return the name created in this very directory; None if it has none."""
    try:
        path = base / PLACE_FILE
        data = read_regular_file(fs, str(path), path=path, max_bytes=_MAX_BYTES)
        said: Any = json.loads(data or b"")
        known = said["place"], said["inode"]
        inode = os.stat(base).st_ino
    except (OSError, ReadError, ValueError, KeyError, TypeError):
        return None
    place = known[0]
    if not isinstance(place, str) or _ID.fullmatch(place) is None or known[1] != inode:
        return None
    return place
