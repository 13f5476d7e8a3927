"""Patterns of paths: globs that name files, and the rules of a .gitignore. Pure."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

_ESCAPED: Final = re.compile(r"\\([*?])")
_WILD: Final = re.compile(r"[*?\[]")
_MAX_RULES: Final = 2000
_MAX_RULE_CHARS: Final = 500


def is_exact(pattern: str) -> bool:
    """Return whether a glob names one path, with no wildcard in it."""
    return _WILD.search(pattern) is None


def matches(pattern: str, path: str) -> bool:
    """Return whether a glob names a path, both relative to the same folder.

    `*` and `?` stay in one name, `**/` is any number of folders, `[…]` is one character of a set; a
    pattern that ends in `/` names all that is below a folder.
    """
    names = path.split("/")
    parts = _parts(pattern)
    reached = {0}
    for number, part in enumerate(parts):
        if part is None:
            least = min(reached) + (number == len(parts) - 1)  # at the end it is what is inside
            reached = set(range(least, len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and part.match(names[at])}
        if not reached:
            return False
    return len(names) in reached


@functools.lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """Return what each name of a path has to match; None is any number of folders."""
    whole = f"{pattern}**" if pattern.endswith("/") else pattern
    return tuple(
        # Its stars never go back behind one another: no pattern takes long to refuse a name.
        None if part == "**" else re.compile(fnmatch.translate(_ESCAPED.sub(r"[\1]", part)))
        for part in whole.split("/")
    )


@frozen
class _Rule:
    pattern: str
    negated: bool
    directories: bool
    anchored: bool


class IgnoreRules:
    """The rules of one .gitignore, of paths relative to its folder."""

    def __init__(self, text: str) -> None:
        self._rules = [
            rule for line in text.splitlines()[:_MAX_RULES] if (rule := _rule(line)) is not None
        ]

    def judge(self, path: str, *, is_directory: bool) -> bool | None:
        """Return whether a path is ignored; None where no rule speaks of it."""
        name = path.rpartition("/")[2]
        for rule in reversed(self._rules):
            if rule.directories and not is_directory:
                continue
            if matches(rule.pattern, path if rule.anchored else name):
                return not rule.negated
        return None


def _rule(line: str) -> _Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#") or len(text) > _MAX_RULE_CHARS:
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!")
    directories = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    pattern = text.removeprefix("/")
    return _Rule(pattern, negated, directories, anchored) if pattern else None


def names_any(patterns: Iterable[str], path: str) -> bool:
    """Return whether any of some globs names a path."""
    return any(matches(pattern, path) for pattern in patterns)
