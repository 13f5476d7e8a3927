"""Where a person has one queue of questions for all projects, shared with other programs.

The place is that of ask-user-questions-mcp, which writes the same files: with both on one
directory, either program answers what the other one asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SHARED_VARIABLE: Final = "AUQ_SESSION_DIR"
"""The environment variable that names the shared directory, for both programs."""


def shared_directory(
    environment: Mapping[str, str] = os.environ,
    *,
    platform: str = sys.platform,
    home: Path | None = None,
) -> Path:
    """Return the directory of questions that all projects and programs of this user share.

    Args:
        environment: The environment variables.
        platform: The operating system, as `sys.platform` names it.
        home: The user's own directory; the one of this user if None.
    """
    own = home if home is not None else Path.home()
    named = environment.get(SHARED_VARIABLE)
    if named:
        return own / named[1:].lstrip("/") if named.startswith("~") else Path(named)
    return _data_directory(environment, platform, own) / "auq" / "sessions"


def _data_directory(environment: Mapping[str, str], platform: str, home: Path) -> Path:
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environment.get("APPDATA") or environment.get("USERPROFILE") or home)
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
