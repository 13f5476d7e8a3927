"""A signal's handler that raises, at every place of a call where one can."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Rang(BaseException):
    """What the handler raises."""


def interrupted_everywhere(call: Callable[[], object]) -> Iterator[None]:
    """Make a call again and again, raising in it at the first place, at the second, and so on.

    A place is where the interpreter looks for signals, loops left out: where a Python function
    begins and where one of C's has returned, in the standard library too. Yields after each
    interrupted call.
    """
    places = 0
    while True:
        left = places

        def ring(_frame: FrameType, event: str, function: Any) -> None:
            nonlocal left
            if event == "call" or (event == "c_return" and function is not sys.setprofile):
                left -= 1
                if left < 0:
                    sys.setprofile(None)
                    raise Rang

        before = sys.getprofile()
        try:
            sys.setprofile(ring)
            call()
        except Rang:
            places += 1
        else:
            return
        finally:
            sys.setprofile(before)
        yield
