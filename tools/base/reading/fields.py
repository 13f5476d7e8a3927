"""The one reader of mappings: typed values by name, and all faults at once; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from .nodes import (
    Faults,
    Node,
    Refused,
    Scalar,
    as_flag,
    as_list,
    as_mapping,
    as_number,
    as_text,
    as_whole,
    describe,
    is_null,
    line_of,
    looks_like_a_number,
    meant,
    short,
)

_T = TypeVar("_T")
_Default = TypeVar("_Default")
Judge = Callable[[str], str | None]
"""Returns a text's fault, or None."""
_MAPPING: Final = "keys and values"
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


def filled(text: str) -> str | None:
    """Judge a text that must not be blank."""
    if not text.strip():
        return "is empty"
    return "holds a NUL character" if "\0" in text else None


class Fields:
    """Takes typed values out of a mapping; collects the faults.

    A null field counts as missing.

    Args:
        node: The mapping.
        where: Its path, for messages.
        faults: Collects the faults.
        rule: A rule for every text in it, nested ones included.
        expected: What to call a mapping in the fault of a node that is none.

    Attributes:
        usable: Whether there is a mapping; if there is none, its fields are not reported missing.
    """

    def __init__(
        self,
        node: Node,
        where: str,
        faults: Faults,
        *,
        rule: Judge | None = None,
        expected: str = _MAPPING,
    ) -> None:
        self.line = line_of(node)
        self.where = where
        self.faults = faults
        self._rule = rule
        given = as_mapping(node)
        self.usable = given is not None
        self._given: Mapping[str, Node] = _NO_FIELDS if given is None else given
        self._lines: Mapping[str, int] = getattr(node, "key_lines", _NO_FIELDS)
        self._asked: list[str] = []
        if given is None:
            self.unexpected("", expected, node)

    # ------------------------------------------------------------------------------ faults

    def path(self, name: str) -> str:
        """Return a field's name, prefixed with the mapping's path."""
        return f"{self.where}{'.' if self.where and name else ''}{short(name)}"

    def fault(self, name: str, problem: str, node: Node = None) -> None:
        """Add a fault of a field or, with no name, of the mapping itself."""
        line = self._lines.get(name) or line_of(node) or self.line
        self.faults.add(self.path(name), problem, line)

    def line_of(self, name: str) -> int:
        """Return the line of a field, or of the mapping."""
        return self._lines.get(name) or self.line

    def unexpected(self, name: str, expected: str, node: Node) -> None:
        """Report a field of another kind than expected, unless it is reported already."""
        if isinstance(node, Refused):
            return
        hint = ""
        if expected == "text" and isinstance(node, Scalar):
            hint = "; put it in quotes"
        elif "number" in expected and looks_like_a_number(node):
            hint = "; take its quotes away"
        self.fault(name, f"expected {expected}, found {describe(node)}{hint}", node)

    # ------------------------------------------------------------------------------ taking

    def holds(self, name: str) -> bool:
        """Return whether a field exists, even if it is null."""
        return name in self._given

    def has(self, name: str) -> bool:
        """Return whether a field exists and is not null."""
        return not is_null(self._given.get(name))

    def take(self, name: str, *, required: bool = False) -> Node:
        """Take a field unchanged; None if it is missing, which is a fault if it is required."""
        self._asked.append(name)
        node = self._given.get(name)
        if node is not None and not (type(node) is Scalar and node.is_null):  # `is_null`, inlined
            return node
        if required and self.usable:
            self.fault(name, "is empty" if name in self._given else "is missing", node)
        return None

    def read(
        self,
        name: str,
        expected: str,
        kind: Callable[[Node], _T | None],
        *,
        required: bool = False,
    ) -> _T | None:
        """Convert a field by `kind`; a fault where that returns None."""
        node = self.take(name, required=required)
        if node is None:
            return None
        value = kind(node)
        if value is None:
            self.unexpected(name, expected, node)
        return value

    def text(self, name: str, *, required: bool = False, judge: Judge | None = None) -> str | None:
        """Take a text that passes its judge."""
        node = self.take(name, required=required)
        return None if node is None else self._text(name, node, judge)

    def _text(self, name: str, node: Node, judge: Judge | None) -> str | None:
        text = as_text(node)
        if text is None:
            self.unexpected(name, "text", node)
            return None
        for rule in (self._rule, judge):
            problem = None if rule is None else rule(text)
            if problem is not None:
                self.fault(name, problem, node)
                return None
        return text

    def name(self, name: str, pattern: re.Pattern[str], rule: str) -> str | None:
        """Take a required text that matches a pattern."""

        def misfit(text: str) -> str | None:
            fits = pattern.fullmatch(text)
            return None if fits else f"{short(text)!r} is no name here; {rule}"

        return self.text(name, required=True, judge=misfit)

    def one_of(
        self, name: str, words: Collection[str], default: _Default, *, required: bool = False
    ) -> str | _Default:
        """Take one of a closed set of words."""
        node = self.take(name, required=required)
        if node is None:
            return default
        text = as_text(node)
        if text is None or text not in words:
            self.unexpected(name, f"one of {', '.join(words)}", node)
            return default
        return text

    def whole(self, name: str, default: _Default, *, least: int, most: int) -> int | _Default:
        """Take a whole number from `least` to `most`."""
        value = self.read(name, "a whole number", as_whole)
        if value is not None and not least <= value <= most:
            self.unexpected(name, f"{least:,} to {most:,}", self._given[name])
            return default
        return default if value is None else value

    def number(self, name: str, *, most: float, above: float = 0, unit: str = "") -> float | None:
        """Take a number greater than `above` and at most `most`."""
        value = self.read(name, f"a number of {unit}" if unit else "a number", as_number)
        if value is not None and not above < value <= most:  # excludes nan
            bounds = f"more than {above:g}, up to {most:g} {unit}".rstrip()
            self.unexpected(name, bounds, self._given[name])
            return None
        return None if value is None else float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Take a boolean."""
        value = self.read(name, "true or false", as_flag)
        return default if value is None else value

    # ------------------------------------------------------------------------------ further in

    def items(
        self,
        name: str,
        *,
        least: int | None = None,
        most: int | None = None,
        expected: str = "a list",
    ) -> list[Node]:
        """Take a list of `least` to `most` items; it is optional if `least` is None."""
        found = self.read(name, expected, as_list, required=least is not None)
        if found == [] and least:
            self.fault(name, "is an empty list", self._given[name])
        if found and most is not None and len(found) > most:
            self.fault(name, f"are {len(found)}, {most} are allowed")
        return (found or [])[:most]

    def texts(
        self, name: str, *, judge: Judge | None = None, **bounds: int | None
    ) -> tuple[str, ...]:
        """Take a list of texts that pass the judge; see `items` for the bounds."""
        found = [
            self._text(f"{name}[{index}]", node, judge)
            for index, node in enumerate(self.items(name, expected="a list", **bounds))
        ]
        return tuple(text for text in found if text is not None)

    def distinct(
        self, name: str, *, judge: Judge | None = None, **bounds: int | None
    ) -> tuple[str, ...]:
        """Take a list of distinct texts; see `items` for the bounds."""
        known: set[str] = set()

        def judged(text: str) -> str | None:
            if text in known:
                return f"{short(text)!r} stands twice"
            known.add(text)
            return None if judge is None else judge(text)

        return self.texts(name, judge=judged, **bounds)

    def inner(self, name: str, *, required: bool = False, expected: str = _MAPPING) -> Fields:
        """Take the fields of a nested mapping; if there is none, none is missing."""
        node = self.take(name, required=required)
        found = self._of(name, _NO_FIELDS if node is None else node, expected)
        found.usable = found.usable and node is not None
        return found

    def each(self, name: str, *, expected: str = "a list", **bounds: int | None) -> list[Fields]:
        """Take the mappings of a list, each as fields; see `items`."""
        nodes = self.items(name, expected=expected, **bounds)
        return [self._of(f"{name}[{index}]", node) for index, node in enumerate(nodes)]

    def _of(self, name: str, node: Node, expected: str = _MAPPING) -> Fields:
        return Fields(node, self.path(name), self.faults, rule=self._rule, expected=expected)

    # ------------------------------------------------------------------------------ the end

    def refuse(self, name: str, problem: str) -> None:
        """Report a field, if it exists."""
        self._asked.append(name)
        if self.has(name):
            self.fault(name, problem, self._given[name])

    def done(self) -> None:
        """Report the keys that were not taken."""
        for name in self.rest():
            self.fault(name, f"there is no such key; {meant(name, self._asked)}")

    def rest(self) -> dict[str, Node]:
        """Return the fields that were not taken."""
        return {name: one for name, one in self._given.items() if name not in self._asked}
