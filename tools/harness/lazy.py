"""Values built on first use: adapters that take long to load, or may refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

_T = TypeVar("_T")
_Made_co = TypeVar("_Made_co", covariant=True)


class Lazy(Generic[_Made_co]):
    """A value that the first call builds and every later call returns.

    If building it fails, that call raises, and the next one tries again.
    """

    def __init__(self, make: Callable[[], _Made_co]) -> None:
        self._make = cache(make)

    def __call__(self) -> _Made_co:
        """Return the value."""
        return self._make()


def lazy(given: _T | Lazy[_T]) -> Lazy[_T]:
    """Return a `Lazy` unchanged, and anything else wrapped as an already built value."""
    return given if isinstance(given, Lazy) else Lazy(lambda: given)
