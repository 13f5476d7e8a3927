"""Limits of guest paths: their length, their depth, and the names reserved for the host."""

from __future__ import annotations

import unicodedata
from typing import Final

HIDDEN_NAME: Final = ".metadata.json"
"""The one file at a workspace's root that belongs to the host."""

PROGRAM_NAME: Final = ".program.state"
"""The one directory there: the durable program of a sandbox session."""

STATE_NAME: Final = "state.aflive"
"""The program's snapshot in its directory."""

DAMAGED_NAME: Final = "state.damaged"
"""The name of a damaged snapshot that was moved aside; a later one replaces it."""

MAX_GUEST_PATH_BYTES: Final = 4096
"""The longest workspace path that can be named, in bytes."""

MAX_DEPTH: Final = 128
"""The most names in a path: deeper trees break the tools that remove trees on hosts."""


def is_hidden(name: str) -> bool:
    """Return whether a name at a workspace's root is, in any spelling, one of the host's own."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kept = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))
    return kept.rstrip(" .") in (HIDDEN_NAME, PROGRAM_NAME)
