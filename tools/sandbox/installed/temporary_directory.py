"""The host's temporary directory, as `tempfile` chooses it, found without loading `tempfile`.

`tempfile` loads three compressors, which takes longer than a first execution may.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def temporary_directory() -> str:
    """Return the directory that `tempfile.gettempdir()` would.

    Raises:
        FileNotFoundError: No directory is usable.
    """
    chosen = chosen_directory()
    if chosen is not None:
        return chosen
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for candidate in filter(None, (*named, "/tmp", "/var/tmp", "/usr/tmp")):  # noqa: S108
        if os.path.isdir(candidate) and os.access(candidate, os.W_OK | os.X_OK):
            return os.path.abspath(candidate)
    import tempfile

    return tempfile.gettempdir()


def chosen_directory() -> str | None:
    """Return the directory that `tempfile` is set to or has settled on; None before."""
    loaded: ModuleType | None = sys.modules.get("tempfile")
    chosen = None if loaded is None else loaded.tempdir
    return chosen if chosen is None else os.fsdecode(chosen)
