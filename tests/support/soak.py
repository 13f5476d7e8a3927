"""How much a campaign tries: little by default, and forty times as much with AGENTFORGE_SOAK=1."""

from __future__ import annotations

import os
from typing import Final

SOAKING: Final = os.environ.get("AGENTFORGE_SOAK") == "1"


def examples(count: int) -> int:
    """Return how many examples to try of a property that deserves `count`: a part of many."""
    if SOAKING:
        return count * 10
    return count // 10 if count >= 100 else max(1, count // 6)
