"""What this process holds open, told so that other tests' leftovers don't matter."""

from __future__ import annotations

import gc
import os
from pathlib import Path


def held_below(root: Path) -> list[str]:
    """Where the descriptors lead that are open on something in a directory, or on itself.

    Args:
        root: The directory; what was removed from it since still counts.

    Returns:
        The paths, sorted; one for each descriptor.
    """
    inside = os.path.realpath(root)
    return sorted(
        path
        for path in _targets()
        if path.removesuffix(" (deleted)") == inside or path.startswith(f"{inside}/")
    )


def held() -> int:
    """How many descriptors are open, of whatever kind.

    Compare it with `<=`: what an earlier test forgot, or a thread still closes, can go meanwhile.
    """
    gc.collect()
    return len(_targets())


def _targets() -> list[str]:
    targets = []
    for name in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # closed meanwhile, or the listing's own
            continue
    return targets
