"""What stands in a root of sessions, less the prune engine's private directory."""

from __future__ import annotations

import os
from pathlib import Path

from agentforge_sessions.prune import PRIVATE


def names_in(root: str | Path) -> list[str]:
    """Name what is in a root, in order; `.prune` is made when a root is first used."""
    return sorted(name for name in os.listdir(root) if name != PRIVATE)
