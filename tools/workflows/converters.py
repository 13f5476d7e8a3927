"""Convert frozen values: their sequences to tuples, and whole values to and from JSON.

In JSON a value is an object of its fields by name; a field of bytes is named `base64`.
"""

from __future__ import annotations

import base64
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin

from attrs import NOTHING, fields, has, resolve_types

_Kind = TypeVar("_Kind")
_BYTES: Final = "base64"


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values as a tuple; the field's type says what they are."""
    return tuple(values)


def plain(value: Any) -> Any:
    """Return a value as plain JSON data."""
    if has(type(value)):
        given = {one.name: getattr(value, one.name) for one in fields(type(value))}
        return {
            _BYTES if isinstance(one, bytes) else name: plain(one) for name, one in given.items()
        }
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def made(kind: type[_Kind], value: Any, **given: Any) -> _Kind:
    """Return the value that `plain` encoded; missing fields get the class's defaults.

    Args:
        kind: The class.
        value: The JSON data.
        **given: Fields that are not in the data.

    Raises:
        KeyError: A field without a default is missing.
        TypeError: A part has the wrong type; other checks are left to the classes.
        ValueError: A part is not base64, or a class rejects it.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"expected keys and values, found {type(value).__name__}")
    found = dict(given)
    cls: Any = kind
    for one in fields(resolve_types(cls)):
        key = _BYTES if one.type is bytes else one.name
        if one.name not in given and (key in value or one.default is NOTHING):
            found[one.name] = _of_type(one.type, value[key])
    return kind(**found)


def _of_type(kind: Any, value: Any) -> Any:
    """Return the value of a field of this type from its JSON data."""
    arguments = get_args(kind)
    if has(kind):
        return made(kind, value)
    if kind is str and not isinstance(value, str):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    if kind is bytes:
        return base64.b64decode(value, validate=True)
    if isinstance(kind, types.UnionType):
        return None if value is None else _of_type(arguments[0], value)
    if get_origin(kind) is tuple:
        inner = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_of_type(of, one) for of, one in zip(inner, value, strict=True))
    if arguments and issubclass(get_origin(kind), Mapping):
        return {name: _of_type(arguments[1], one) for name, one in value.items()}
    return value
