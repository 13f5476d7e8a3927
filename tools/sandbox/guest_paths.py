"""Paths as guests name them: how long, how deep, and the one name that is the host's own."""

from __future__ import annotations

import unicodedata
from typing import Final

HIDDEN_NAME: Final = ".metadata.json"
"""The one file at the root of a workspace that is the host's own."""

MAX_GUEST_PATH_BYTES: Final = 4096
"""The longest path of a workspace that can be named."""

MAX_DEPTH: Final = 128
"""The most names in a path: deeper trees defeat the tools hosts remove trees with."""


def is_hidden(name: str) -> bool:
    """Whether a name at a workspace's root is, in any spelling, the host's own file's."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kept = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))
    return kept.rstrip(" .") == HIDDEN_NAME
