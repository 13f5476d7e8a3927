"""Follow an action through the package: calls made, modules entered, borders crossed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.architecture.house import ROOT

_PACKAGE: Final = f"{os.path.realpath(ROOT)}/"
_LOOPS: Final = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}


class Way(NamedTuple):
    """What an action costs in the package: every figure is a count."""

    calls: int
    """Calls of the package's functions; comprehensions and generator expressions are no calls."""
    modules: int
    """Modules whose functions were called."""
    crossings: int
    """Calls from one of the thirteen packages into another."""


def way_of(action: Callable[[], object], *, prepare: Callable[[], object] = int) -> Way:
    """Count what the calling thread does in the package during the second run of an action.

    The first run loads modules and fills caches; threads that the action starts are not followed,
    and neither is `prepare`, which is called before each run.
    """
    prepare()
    action()
    prepare()
    calls: Counter[str] = Counter()
    crossings = 0
    places: dict[str, str | None] = {}

    def place(frame: FrameType) -> str | None:
        file = frame.f_code.co_filename
        if file not in places:
            path = os.path.realpath(file)
            inside = path.startswith(_PACKAGE)
            places[file] = path.removeprefix(_PACKAGE) if inside else None
        return places[file]

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal crossings
        module = place(frame)
        if event != "call" or module is None or frame.f_code.co_name in _LOOPS:
            return
        calls[module] += 1
        caller = frame.f_back
        while caller is not None and place(caller) is None:
            caller = caller.f_back
        origin = None if caller is None else place(caller)
        if origin is not None and _package(origin) != _package(module):
            crossings += 1

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        action()
    finally:
        sys.setprofile(before)
    return Way(calls.total(), len(calls), crossings)


def _package(module: str) -> str:
    return module.partition("/")[0]
