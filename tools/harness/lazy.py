"""What is opened when it is first needed: an adapter that takes long to load, or may refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

_T = TypeVar("_T")
_Made_co = TypeVar("_Made_co", covariant=True)


class Lazy(Generic[_Made_co]):
    """A value that is made by the first call, and is the same for each further one.

    Where making it fails, that call raises, and the next one tries again.
    """

    def __init__(self, make: Callable[[], _Made_co]) -> None:
        self._make = cache(make)

    def __call__(self) -> _Made_co:
        """Return the value."""
        return self._make()


def lazy(given: _T | Lazy[_T]) -> Lazy[_T]:
    """Return what is lazy already as it is, and anything else as a value that is made."""
    return given if isinstance(given, Lazy) else Lazy(lambda: given)
