"""Which events somebody is told of: names, in which `*` stands for any part; pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache

from ..harness.session_notices import OBSERVED, WebhookTest


def is_chosen(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return what says whether an event of a name is chosen by any of some patterns."""
    kept = tuple(patterns)

    @cache
    def chosen(name: str) -> bool:
        return any(fnmatchcase(name, one) for one in kept)

    return chosen


def unknown_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern that chooses no event, or None."""
    names = [name for name in OBSERVED if name != WebhookTest.log_name]
    if any(fnmatchcase(name, pattern) for name in names):
        return None
    near = difflib.get_close_matches(pattern, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "docs/events.md lists them"
    return f"there is no event {pattern!r}; {hint}"
