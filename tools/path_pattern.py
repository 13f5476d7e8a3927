"""Globs over the components of a path, where `**` stands for any number of folders."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence


def component_matcher(names: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return a test of a path's components; its cost is their two lengths multiplied.

    Args:
        names: The pattern's components; a `**` stands for any number of folders, none too.
    """
    tests = [None if name == "**" else re.compile(fnmatch.translate(name)).match for name in names]

    def reached(positions: set[int]) -> set[int]:
        for position in sorted(positions):
            here = position
            while here < len(tests) and tests[here] is None:  # `**` may stand for nothing
                here += 1
                positions.add(here)
        return positions

    def matches(parts: Sequence[str]) -> bool:
        positions = reached({0})
        for part in parts:
            after = set()
            for position in positions:
                if position == len(tests):
                    continue
                test = tests[position]
                if test is None:
                    after.add(position)
                elif test(part):
                    after.add(position + 1)
            positions = reached(after)
        return len(tests) in positions

    return matches
