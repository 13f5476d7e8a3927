"""The rules of a .gitignore; pure."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from ...base.path_pattern import matches

_MAX_RULES: Final = 2000
_MAX_RULE_CHARS: Final = 500


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
