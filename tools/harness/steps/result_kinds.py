"""The types of the results of steps, as annotations name them.

A recorded value names no class that could be looked up: its classes are those of the annotation.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    NamedTuple,
    Never,
    NoReturn,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_DESCRIBED: Final = (Annotated, Final, Required, NotRequired)
_OF_JSON: Final = (NoneType, bool, int, float, str, list, dict)
_CONTAINERS: Final = (tuple, set, frozenset, bytes, Path)


class Unfit(ValueError):
    """A value or a type can't be recorded, or a record is not of its type.

    Attributes:
        trail: Where in the value, from the inside out.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.trail: list[object] = []

    def __str__(self) -> str:
        where = "".join(f"[{each!r}]" for each in reversed(self.trail))
        return f"{where[:200]}: {self.args[0]}" if where else str(self.args[0])


class TextKind(NamedTuple):
    """A type of values that are recorded as text.

    Attributes:
        tag: Its name in a record.
        text: Returns a value's text.
        value: Returns the value of a text.
    """

    tag: str
    text: Callable[[Any], str]
    value: Callable[[str], object]


class Part(NamedTuple):
    """A field of a class.

    Attributes:
        kind: Its annotation.
        argument: The constructor's argument; None if the constructor sets the field itself.
    """

    kind: object
    argument: str | None


@lru_cache(maxsize=1)
def scalars() -> Mapping[type, TextKind]:
    """Return the types that are recorded as text; JSON values need none of their modules."""
    from base64 import b64decode, b64encode
    from datetime import date, datetime, time, timedelta
    from decimal import Decimal
    from uuid import UUID

    return {
        bytes: TextKind(
            "bytes",
            lambda one: b64encode(one).decode(),
            lambda text: b64decode(text, validate=True),
        ),
        datetime: TextKind("datetime", _moment_text, _moment),
        date: TextKind("date", str, date.fromisoformat),
        time: TextKind("time", str, time.fromisoformat),
        timedelta: TextKind(
            "microseconds",
            lambda one: str(one // timedelta(microseconds=1)),
            lambda text: timedelta(microseconds=int(text)),
        ),
        Decimal: TextKind("decimal", str, Decimal),
        UUID: TextKind("uuid", str, UUID),
    }


def _moment_text(moment: Any) -> str:
    zone = getattr(moment.tzinfo, "key", None)
    return f"{moment.isoformat()}[{zone}]" if zone else str(moment.isoformat())


def _moment(text: str) -> object:
    from datetime import datetime

    moment, _, zone = text.removesuffix("]").partition("[")
    found = datetime.fromisoformat(moment)
    if not zone:
        return found
    from zoneinfo import ZoneInfo

    there = [found.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1)]
    return there[there[0].utcoffset() != found.utcoffset()]


def result_kind(function: Callable[..., object]) -> object | None:
    """Return the annotation of a function's result, or of what its awaitable has; None without one.

    Raises:
        Unfit: It names what can't be found.
    """
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        return function
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):  # an object that can be called
        function = inspect.unwrap(type(function).__call__)
    function = getattr(function, "__func__", function)
    try:
        annotations = getattr(function, "__annotations__", {})
        if "return" not in annotations:
            return None
        alone: Any = SimpleNamespace(__annotations__={"return": annotations["return"]})
        names = getattr(function, "__globals__", {})
        hints = get_type_hints(alone, names, _enclosed(function), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise Unfit(f"the annotation of its result can't be resolved: {error}") from error
    kind: object = hints["return"]
    if get_origin(kind) in (Awaitable, Coroutine):
        kind = get_args(kind)[-1]
    return kind


def _enclosed(function: Any) -> dict[str, object]:
    """Return the variables of enclosing functions that a function uses, by name."""
    found = {}
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return found


def options(kind: object) -> Sequence[object]:
    """Return the alternatives of an annotation, without what only describes them."""
    if type(kind) is type:  # a class, as most are
        return (kind,)
    bare = _bare(kind)
    if get_origin(bare) in (Union, UnionType):
        return [one for each in get_args(bare) for one in options(each)]
    return [] if bare in (Never, NoReturn) else [bare]


def _bare(kind: Any) -> object:
    """Return what an annotation means, if it is a name or a description of another one."""
    while True:
        origin = get_origin(kind)
        if origin in _DESCRIBED:
            kind = get_args(kind)[0]
        elif hasattr(kind, "__supertype__"):  # a NewType
            kind = kind.__supertype__
        elif hasattr(origin, "__type_params__") and hasattr(origin, "__value__"):
            given = zip(origin.__type_params__, get_args(kind), strict=False)
            kind = _filled_in(origin.__value__, dict(given))  # of: type Pair[T] = tuple[T, T]
        elif hasattr(kind, "__value__") and not isinstance(kind, type):  # of: type Name = ...
            kind = kind.__value__
        elif isinstance(kind, TypeVar):
            kind = kind.__bound__ or object
        elif kind is Any:
            return object
        else:
            return NoneType if kind is None else kind


def class_of(kind: object) -> type | None:
    """Return the class of a single annotation; None if it is not one of a class."""
    found = get_origin(kind) or kind
    return found if isinstance(found, type) else None


def is_model(cls: type) -> bool:
    """Return whether a class is a pydantic model, without an import of pydantic."""
    return hasattr(cls, "model_validate_json") and hasattr(cls, "__pydantic_validator__")


def is_typed_dict(cls: type) -> bool:
    """Return whether a class describes the keys of a dictionary."""
    return hasattr(cls, "__required_keys__")


def is_named(cls: type) -> bool:
    """Return whether a record names the class of its instances."""
    return _own_fields(cls) is not None or is_model(cls) or issubclass(cls, Enum)


def fields_of(kind: object) -> Mapping[str, Part]:
    """Return the fields of a class, or of a `TypedDict`, with the annotation's type arguments.

    Raises:
        Unfit: An annotation names what can't be found.
    """
    cls: Any = class_of(kind)
    if cls is None:
        return {}
    arguments = _own_fields(cls)
    if not arguments and not is_typed_dict(cls):
        return {}
    hints = _hints(cls)
    given = dict(zip(getattr(cls, "__parameters__", ()), get_args(kind), strict=False))
    return {
        name: Part(_filled_in(hints.get(name, object), given), argument)
        for name, argument in (arguments or {name: name for name in hints}).items()
    }


@lru_cache(maxsize=1_000)
def _own_fields(cls: type) -> Mapping[str, str | None] | None:
    """Return the constructor's arguments by field; None if the class has no declared fields."""
    if hasattr(cls, "__attrs_attrs__"):
        return {one.name: one.alias if one.init else None for one in cls.__attrs_attrs__}
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import fields

        return {one.name: one.name if one.init else None for one in fields(cls)}
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return {name: name for name in cls._fields}
    return None


@lru_cache(maxsize=1_000)
def _hints(cls: type) -> Mapping[str, object]:
    try:
        return get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise Unfit(f"the annotations of {cls.__qualname__} can't be resolved: {error}") from error


def _filled_in(kind: Any, given: Mapping[object, object]) -> object:
    """Return an annotation with type arguments in place of its variables."""
    if isinstance(kind, TypeVar):
        return given.get(kind, kind)
    variables = () if isinstance(kind, type) else getattr(kind, "__parameters__", ())
    if not given or not variables:
        return kind
    return kind[tuple(given.get(one, one) for one in variables)]


def require_recordable(kind: object) -> None:
    """Raise if no value of an annotation can be recorded, as far as the annotation says that.

    Raises:
        Unfit: A class of it has no fields or has the name of another one.
    """
    seen: list[object] = []
    left = [kind]
    while left:
        kind = left.pop()
        if any(kind is one for one in seen):
            continue
        seen.append(kind)
        found = options(kind)
        names = [cls.__name__ for cls in map(class_of, found) if cls is not None and is_named(cls)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise Unfit(f"{shown(kind)} has several classes named {twice[0]}")
        for one in found:
            left += _parts(one)


def _parts(kind: object) -> Iterable[object]:
    """Return the annotations within a single one, which must be recordable itself."""
    cls = class_of(kind)
    if get_origin(kind) is Literal:
        return ()
    if isinstance(kind, str | ForwardRef):
        raise Unfit(f"{shown(kind)} is a name in quotes, which can't be resolved here")
    if cls is None:
        raise Unfit(f"values of {shown(kind)} can't be recorded")
    if is_named(cls) or is_typed_dict(cls):
        return [field.kind for field in fields_of(kind).values()]
    try:
        known = any(issubclass(one, cls) for one in (*_OF_JSON, *_CONTAINERS, *scalars()))
    except TypeError:  # a protocol that isn't checked at run time
        known = False
    if not known:
        raise Unfit(f"{shown(kind)} is not a class with declared fields")
    return [one for one in get_args(kind) if one is not ...]


def shown(kind: object) -> str:
    """Return an annotation as text for a message."""
    text = kind.__qualname__ if isinstance(kind, type) else str(kind)
    return text if len(text) <= 100 else f"{text[:97]}..."
