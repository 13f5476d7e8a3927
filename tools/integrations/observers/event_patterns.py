"""Event patterns, in which `*` stands for any part of a name, and their check; pure."""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase

from ...harness.domain.session_observer import OBSERVED, WebhookTest


def unknown_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern that matches no event, or None."""
    names = [name for name in OBSERVED if name != WebhookTest.log_name]
    if any(fnmatchcase(name, pattern) for name in names):
        return None
    near = difflib.get_close_matches(pattern, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "docs/events.md lists them"
    return f"there is no event {pattern!r}; {hint}"
