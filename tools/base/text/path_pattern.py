r"""Globs over the components of a path, where `**` matches any number of folders; pure.

All globs of paths are parsed here. `*` and `?` stay in one name, `[…]` is one character of a set
(`[!…]` one that is not in it), `\*` and `\?` are the characters themselves. `**` at the end matches
what is inside, at any depth.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

_ESCAPED: Final = re.compile(r"\\([*?])")
_WILD: Final = re.compile(r"[*?\[]")


def is_exact(pattern: str) -> bool:
    """Return whether a glob has no wildcard and so matches one path only."""
    return _WILD.search(pattern) is None


def component_matcher(names: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return a test of a path's components; its cost is the product of the two lengths.

    Args:
        names: The pattern's components; `**` matches any number of folders, including none.
    """
    # The stars of a name never backtrack past one another, so a mismatch is found quickly.
    tests = [
        None if name == "**" else re.compile(fnmatch.translate(_ESCAPED.sub(r"[\1]", name))).match
        for name in names
    ]

    def matches(parts: Sequence[str]) -> bool:
        reached = {0}
        for number, test in enumerate(tests):
            if test is None:
                least = min(reached) + (number == len(tests) - 1)  # at the end: what is inside
                reached = set(range(least, len(parts) + 1))
            else:
                reached = {at + 1 for at in reached if at < len(parts) and test(parts[at])}
            if not reached:
                return False
        return len(parts) in reached

    return matches


def matches(pattern: str, path: str) -> bool:
    """Return whether a glob matches a path, both relative to the same folder.

    A pattern that ends in `/` matches all that is below a folder.
    """
    return _matcher(pattern)(path.split("/"))


def names_any(patterns: Iterable[str], path: str) -> bool:
    """Return whether any of the globs matches a path."""
    return any(matches(pattern, path) for pattern in patterns)


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> Callable[[Sequence[str]], bool]:
    whole = f"{pattern}**" if pattern.endswith("/") else pattern
    return component_matcher(whole.split("/"))
