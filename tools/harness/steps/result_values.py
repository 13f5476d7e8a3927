"""Turn the values of step results into nodes of JSON, and back, as `codec` describes; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from itertools import repeat
from math import isfinite
from pathlib import Path, PurePosixPath
from types import GenericAlias, NoneType
from typing import Any, Final, Literal, NotRequired, get_args, get_origin

from .result_kinds import (
    Unfit,
    class_of,
    fields_of,
    is_model,
    is_named,
    is_typed_dict,
    options,
    scalars,
    shown,
)

MAX_DEPTH: Final = 100
"""Most levels of nesting."""
_PLAIN: Final = frozenset((str, int, bool, NoneType))
_TAG: Final = "$"
_VALUE: Final = "v"
_CLASS: Final = "class "
_GROUPS: Final[Mapping[str, type]] = {one.__name__: one for one in (tuple, set, frozenset)}


def text_of(node: object) -> str:
    """Return a node as JSON."""
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _each(
    walk: Callable[[Any, Any, int], Any], parts: Iterable[tuple[object, Any, Any]], depth: int
) -> list[Any]:
    """Return what becomes of parts (name, part, annotation); name the one that is unfit."""
    if depth >= MAX_DEPTH:
        raise Unfit(f"it is nested more than {MAX_DEPTH} deep")
    found = []
    for name, part, kind in parts:
        try:
            found.append(walk(part, kind, depth + 1))
        except Unfit as error:
            error.trail.append(name)
            raise
    return found


class Dumping:
    """Turns a value into a node of JSON.

    Attributes:
        tagged: Whether the node has a tag.
        unequal: Whether the value has a NaN, which makes it unequal to itself.
    """

    def __init__(self, workspace: Path | None) -> None:
        self._workspace = workspace
        self.tagged = False
        self.unequal = False

    def value(self, value: Any, depth: int) -> Any:
        """Return the node of a value.

        Raises:
            Unfit: It can't be recorded.
        """
        cls = type(value)
        if cls in _PLAIN:
            return value
        if cls is float:
            return self._float(value)
        if cls is list:
            return self._parts(enumerate(value), depth)
        if cls is dict:
            return self._dict(value, depth)
        self.tagged = True
        tag, node = self._tagged(value, cls, depth)
        return {_TAG: tag, _VALUE: node}

    def _parts(self, parts: Iterable[tuple[object, object]], depth: int) -> list[Any]:
        named = ((name, part, None) for name, part in parts)
        return _each(lambda part, _, at: self.value(part, at), named, depth)

    def _float(self, value: float) -> Any:
        if isfinite(value):
            return value
        self.tagged = True
        self.unequal = self.unequal or value != value  # noqa: PLR0124 (true of a NaN alone)
        return {_TAG: "float", _VALUE: repr(value)}

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        if all(type(key) is str for key in value) and _TAG not in value:
            return dict(zip(value, self._parts(value.items(), depth), strict=True))
        self.tagged = True
        pairs = ((key, list(pair)) for key, pair in zip(value, value.items(), strict=True))
        return {_TAG: "dict", _VALUE: self._parts(pairs, depth)}

    def _tagged(self, value: Any, cls: type, depth: int) -> tuple[str, Any]:
        scalar = scalars().get(cls)
        if scalar is not None:
            return scalar.tag, scalar.text(value)
        if cls in _GROUPS.values():
            nodes = self._parts(enumerate(value), depth)
            return cls.__name__, nodes if cls is tuple else sorted(nodes, key=text_of)
        if isinstance(value, Path):
            return self._path(value)
        if not is_named(cls):
            raise Unfit(f"{shown(cls)} is not a class with declared fields")
        return f"{_CLASS}{cls.__name__}", self._instance(value, cls, depth)

    def _path(self, path: Path) -> tuple[str, str]:
        root = self._workspace
        if root is None or ".." in path.parts or not path.is_relative_to(root):
            return "path", str(path)
        return "artifact", str(path.relative_to(root))

    def _instance(self, value: Any, cls: type, depth: int) -> Any:
        if isinstance(value, Enum):
            return value.value if isinstance(value, Flag) else value.name
        if is_model(cls):
            return value.model_dump(mode="json", by_alias=True, round_trip=True, warnings="error")
        names = fields_of(cls)
        parts = ((name, getattr(value, name)) for name in names)
        return dict(zip(names, self._parts(parts, depth), strict=True))


class Loading:
    """Turns a node of JSON into a value of an annotation."""

    def __init__(self, workspace: Path | None) -> None:
        self._workspace = workspace

    def value(self, node: Any, kind: Any, depth: int) -> Any:
        """Return the value of a node.

        Raises:
            Unfit: It is not a value of this annotation.
        """
        if type(node) in _PLAIN and (kind is object or kind is type(node)):
            return node
        found = options(kind)
        if len(found) == 1:
            return self._single(node, found[0], depth)
        failures = []
        for one in found:
            try:
                return self._single(node, one, depth)
            except Unfit as error:
                failures.append(error)
        named = [
            error
            for one, error in zip(found, failures, strict=True)
            if _tag_of(node) == f"{_CLASS}{getattr(class_of(one), '__name__', '')}"
        ]
        raise named[0] if named else Unfit(f"{_described(node)} is not of type {shown(kind)}")

    def _single(self, node: Any, kind: Any, depth: int) -> Any:
        if type(node) is list:
            return checked(_each(self.value, _items(list, node, kind), depth), kind)
        if type(node) is not dict:
            if type(node) is float and not isfinite(node):
                raise Unfit("a number is out of range")
            return checked(node, kind)
        if _TAG not in node:
            values = _each(self.value, _values(node, kind), depth)
            return checked(dict(zip(node, values, strict=True)), kind)
        if node.keys() != {_TAG, _VALUE} or type(node[_TAG]) is not str:
            raise Unfit("a tag is malformed")
        return self._tagged(node[_TAG], node[_VALUE], kind, depth)

    def _tagged(self, tag: str, node: Any, kind: Any, depth: int) -> Any:
        if tag.startswith(_CLASS):
            return self._instance(tag.removeprefix(_CLASS), node, kind, depth)
        if tag == "dict" or tag in _GROUPS:
            if type(node) is not list:
                raise Unfit(f"a {tag} is malformed")
            if tag == "dict":
                tuples = ({_TAG: "tuple", _VALUE: one} for one in node)
                pairs = zip(range(len(node)), tuples, repeat(GenericAlias(tuple, _pair_of(kind))))
                return checked(dict(_each(self.value, pairs, depth)), kind)
            group = _GROUPS[tag]
            return checked(group(_each(self.value, _items(group, node, kind), depth)), kind)
        made: dict[str, Callable[[str], object]] = {
            "float": float,
            "path": Path,
            "artifact": self._artifact,
            **{one.tag: one.value for one in scalars().values()},
        }
        if tag not in made or type(node) is not str:
            raise Unfit(f"the tag {tag[:40]!r} is unknown or malformed")
        return checked(made[tag](node), kind)

    def _artifact(self, text: str) -> Path:
        path = PurePosixPath(text)
        if self._workspace is None:
            raise Unfit("it is a path in a workspace, and the session has none here")
        if path.is_absolute() or ".." in path.parts:
            raise Unfit(f"{text[:100]!r} is not a path in the workspace")
        return self._workspace / path

    def _instance(self, name: str, node: Any, kind: Any, depth: int) -> Any:
        cls: Any = class_of(kind)
        if cls is None or cls.__name__ != name or not is_named(cls):
            raise Unfit(
                f"an instance of {name[:100]} is not of type {shown(kind)}; name its class in the "
                "annotation"
            )
        if is_model(cls):
            made = cls.model_validate_json(json.dumps(node))
        elif issubclass(cls, Enum):
            made = cls(node) if issubclass(cls, Flag) else cls[node]
        else:
            made = self._built(cls, node, kind, depth)
        if type(made) is not cls:
            raise Unfit(f"{name} makes an instance of another class")
        return made

    def _built(self, cls: type, node: Any, kind: Any, depth: int) -> Any:
        fields = fields_of(kind)
        unknown = [] if type(node) is not dict else sorted(node.keys() - fields.keys())
        if type(node) is not dict or unknown:
            raise Unfit(f"{cls.__name__} has no field {', '.join(unknown)[:100]}")
        parts = [
            (name, part, fields[name].kind)
            for name, part in node.items()
            if fields[name].argument is not None
        ]
        values = _each(self.value, parts, depth)
        arguments = (str(fields[name].argument) for name, _, _ in parts)
        try:
            return cls(**dict(zip(arguments, values, strict=True)))
        except Exception as error:
            raise Unfit(f"{cls.__name__} refuses its fields: {error}") from error


def _items(group: type, nodes: list[Any], kind: Any) -> Iterable[tuple[object, Any, Any]]:
    """Return the items of a group with their annotations."""
    arguments = get_args(kind)
    of: Iterable[object] = repeat(arguments[0] if len(arguments) == 1 else object)
    if group is tuple and get_origin(kind) is tuple:
        if len(arguments) == 2 and arguments[1] is ...:
            of = repeat(arguments[0])
        elif len(arguments) == len(nodes):
            of = arguments
        else:
            raise Unfit(f"{len(nodes)} items are not of type {shown(kind)}")
    return zip(range(len(nodes)), nodes, of, strict=False)


def _values(node: dict[str, Any], kind: Any) -> Iterable[tuple[object, Any, Any]]:
    """Return the values of a dictionary with their annotations."""
    cls: Any = class_of(kind)
    if cls is None or not is_typed_dict(cls):
        of = _pair_of(kind)[1]
        return ((name, part, of) for name, part in node.items())
    fields = fields_of(kind)
    needed = {  # the class takes a key for required if its annotation is a text
        name for name in cls.__required_keys__ if get_origin(fields[name].kind) is not NotRequired
    }
    wrong = sorted((needed | node.keys()) - (fields.keys() & node.keys()))
    if wrong:
        raise Unfit(f"{shown(kind)} has other keys: {', '.join(wrong)[:100]}")
    return ((name, part, fields[name].kind) for name, part in node.items())


def _pair_of(kind: Any) -> tuple[Any, Any]:
    """Return the annotations of keys and values."""
    arguments = get_args(kind)
    return (arguments[0], arguments[1]) if len(arguments) == 2 else (object, object)


def checked(value: Any, kind: Any) -> Any:
    """Return a value if it is of an annotation, without regard to its parts."""
    if kind is object or type(value) is kind:
        return value
    for one in options(kind):
        cls = class_of(one)
        if get_origin(one) is Literal:
            fits = any(type(value) is type(each) and value == each for each in get_args(one))
        elif cls is None:
            fits = False
        elif is_typed_dict(cls):
            fits = type(value) is dict
        else:
            fits = isinstance(value, (float, int) if cls is float else cls)
        if fits:
            return value
    raise Unfit(f"{_described(value)} is not of type {shown(kind)}")


def _tag_of(node: Any) -> object:
    return node.get(_TAG) if type(node) is dict else None


def _described(node: Any) -> str:
    tag = _tag_of(node)
    if node is None:
        return "None"
    return f"a value of type {type(node).__name__ if tag is None else str(tag)[:100]}"
