"""The paths of a component: files, directories that end in `/`, and globs; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...base.path_pattern import is_exact, matches
from .specification import Component

_PYTHON_TEST: Final = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")


def is_in(path: str, place: str) -> bool:
    """Return whether a path is a place or in it: a file, a directory ending in `/`, or a glob."""
    if place.endswith("/"):
        return path.startswith(place) if is_exact(place) else matches(place, path)
    return path == place or (not is_exact(place) and matches(place, path))


def is_in_any(path: str, places: Iterable[str]) -> bool:
    """Return whether a path is one of some places or in one of them."""
    return any(is_in(path, place) for place in places)


def is_test_path(component: Component, path: str) -> bool:
    """Return whether a path is one of the component's tests; its own files never are."""
    return path not in component.code_places and is_in_any(path, component.tests)


def is_python_test(path: str) -> bool:
    """Return whether pytest would collect a file of this name as a test."""
    return _PYTHON_TEST.fullmatch(path) is not None
