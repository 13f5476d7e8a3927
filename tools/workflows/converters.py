"""Converters of attrs fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """Make a tuple of whatever was given; the field's own type says of what."""
    return tuple(values)
