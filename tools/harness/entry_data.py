"""The structured data of a history's entry: JSON-like, checked, and never changed; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from .session_checks import MAX_COUNT, text_fault, with_type

MAX_DEPTH: Final = 8
"""How deep mappings and lists may be nested."""
MAX_FIELDS: Final = 64
"""How many fields one mapping may have."""
MAX_KEY_CHARS: Final = 100
"""Longest name of a field; YAML allows 1,024 characters, escapes included."""
MAX_ITEMS: Final = 1000
"""How many items one list may have."""


class EntryData(dict[str, Any]):
    """A mapping that can't be changed, of texts, numbers, booleans, None, tuples and such mappings.

    A `dict`, so that `json` and `dataclasses.asdict` take it as it is; every change is refused.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the data of a history's entry can't be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> EntryData:
        return self

    def __deepcopy__(self, _memo: object) -> EntryData:
        return self

    def __reduce__(self) -> tuple[type[EntryData], tuple[dict[str, Any]]]:
        return EntryData, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


NO_DATA: Final = EntryData()


_Place = tuple[str, ...]
"""Where a value stands in the data; put together only for a fault."""


def freeze(value: object) -> tuple[EntryData, list[str]]:
    """Return data that can't be changed any more, and everything that is wrong with it."""
    if not isinstance(value, Mapping):
        return NO_DATA, [f"data: expected a mapping, got {with_type(value)}"]
    faults: list[str] = []
    frozen = _frozen_mapping(("data",), value, faults)
    return (NO_DATA if faults else frozen), faults


def _frozen(place: _Place, value: Any, faults: list[str]) -> Any:
    kind = type(value)
    if kind is str:
        if not value.isascii():
            faults += text_fault("".join(place), value, optional=False, limit=None)
    elif kind is int:
        if not -MAX_COUNT <= value <= MAX_COUNT:
            faults.append(f"{''.join(place)}: is more than {MAX_COUNT}")
    elif kind is float:
        if not math.isfinite(value):
            faults.append(f"{''.join(place)}: {value} is no number")
    elif value is None or kind is bool:
        pass
    elif len(place) > MAX_DEPTH:
        faults.append(f"{''.join(place)}: is nested deeper than {MAX_DEPTH}")
    elif kind is dict or isinstance(value, Mapping):
        return _frozen_mapping(place, value, faults)
    elif kind is list or kind is tuple:
        if len(value) <= MAX_ITEMS:
            return tuple(
                [_frozen((*place, f"[{at}]"), one, faults) for at, one in enumerate(value)]
            )
        told = f"{''.join(place)}: has {len(value):,} items, {MAX_ITEMS:,} are allowed"
        faults.append(told)
    else:
        faults.append(f"{''.join(place)}: {with_type(value)} is nothing that JSON has")
    return value


def _frozen_mapping(place: _Place, value: Mapping[Any, Any], faults: list[str]) -> EntryData:
    if len(value) > MAX_FIELDS:
        told = f"{''.join(place)}: has {len(value):,} fields, {MAX_FIELDS} are allowed"
        faults.append(told)
        return NO_DATA
    found = {}
    for key, one in value.items():
        if type(key) is not str:
            faults.append(f"{''.join(place)}: {with_type(key)} is no name of a field")
        elif len(key) > MAX_KEY_CHARS or not key.isascii():
            name = f"{''.join(place)}: a field's name"
            faults += text_fault(name, key, optional=False, limit=MAX_KEY_CHARS)
        if one is None or one is True or one is False:
            found[key] = one
        else:
            found[key] = _frozen((*place, f".{key}"), one, faults)
    return EntryData(found)
