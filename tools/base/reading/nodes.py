"""The values of documents, as text, number or time, and the faults of documents; pure.

A node is a value that TOML, JSON or a program gives (`dict`, `list`, `str`, …), or one of YAML's,
which knows its line: `MappingNode` and `ListNode` are a `dict` and a `list`; a `Scalar` is
interpreted as the reader expects. Each function returns None for a node of another type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final

MAX_FAULTS: Final = 100
"""The maximum of faults collected for one document; later ones are dropped."""
_NO_LINES: Final[Mapping[str, int]] = MappingProxyType({})


class Faults:
    """Collects the faults of a document.

    Args:
        lines: The lines of paths, from 1, for values that do not know their own.
    """

    def __init__(self, lines: Mapping[str, int] = _NO_LINES) -> None:
        self._lines = lines
        self._found: list[tuple[int, str]] = []

    def add(self, path: str, problem: str, line: int = 0) -> None:
        """Add a fault.

        Args:
            path: The field, such as `context.files[1]`; empty for the document itself.
            problem: What is wrong.
            line: From 1; 0 means the line of the nearest part of the path that has one.
        """
        if self.is_full:
            return
        line = line or self._line_of(path)
        text = f"{path}: {problem}" if path else problem
        self._found.append((line, f"line {line}: {text}" if line else text))

    def _line_of(self, path: str) -> int:
        line = 0
        while self._lines and path and not line:
            line = self._lines.get(path, 0)
            path = path.rpartition("[" if path.endswith("]") else ".")[0]
        return line

    @property
    def is_full(self) -> bool:
        """Whether the maximum is reached; further faults are dropped."""
        return len(self._found) >= MAX_FAULTS

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> list[str]:
        """Return the faults in the order of their lines."""
        return [text for _, text in sorted(self._found, key=lambda one: one[0])]


def meant(name: str, known: Collection[str]) -> str:
    """Return a hint at the closest known name, or at all of them."""
    import difflib  # only a document with a fault needs it

    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"


def short(text: str) -> str:
    """Return a text shortened for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."


Node = Any
"""A node of YAML, or a plain value."""

_STR: Final = "tag:yaml.org,2002:str"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
# Not compiled here: a hook loads this module and uses none of them.
_INT: Final = r"[-+]?(?:0|[1-9][0-9_]{0,24})"
_FLOAT: Final = r"[-+]?(?:[0-9][0-9_]{0,24})(?:\.[0-9]{0,24})?(?:[eE][-+]?[0-9]{1,3})?"
_LONG: Final = 1000
# Possessive: the plain forms take seconds for megabytes of digits.
_LONG_NUMBER: Final = r"[-+]?[0-9][0-9_]*+(?::[0-5]?[0-9])*+(?:\.[0-9_]*+)?"


class Scalar:
    """A single value of YAML.

    Attributes:
        text: The value as text.
        quoted: Whether it is quoted or a block, and so always text.
        line: Its first line, from 1.
    """

    __slots__ = ("line", "quoted", "text")

    def __init__(self, text: str, quoted: bool, line: int) -> None:
        self.text = text
        self.quoted = quoted
        self.line = line

    @property
    def is_text(self) -> bool:
        """Whether it is text to PyYAML, as to most readers of YAML 1.1."""
        return self.quoted or _is_text(self.text)

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return not self.quoted and self.text in _NULLS


class MappingNode(dict[str, Node]):
    """A YAML mapping, in the order of the file.

    Attributes:
        line: The line of its first field.
        key_lines: The line of each key.
    """

    __slots__ = ("key_lines", "line")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.key_lines: dict[str, int] = {}


class ListNode(list[Node]):
    """A list of YAML: its nodes, or what `on_item` returned for them.

    Attributes:
        line: Its first line.
    """

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


class Refused:
    """A value whose fault is reported already.

    Attributes:
        line: Its first line, from 1.
    """

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        self.line = line


@cache
def _resolvers() -> MappingProxyType[str | None, Any]:
    import yaml

    return MappingProxyType(yaml.SafeLoader.yaml_implicit_resolvers)


def _is_text(plain: str) -> bool:
    if len(plain) > _LONG:
        return re.fullmatch(_LONG_NUMBER, plain) is None
    resolvers = _resolvers()
    for tag, pattern in (*resolvers.get(plain[:1], ()), *resolvers.get(None, ())):
        if pattern.match(plain):
            return bool(tag == _STR)
    return True


def line_of(node: Node) -> int:
    """Return the line of a node, from 1; 0 for a plain value."""
    line: int = getattr(node, "line", 0)
    return line


def is_null(node: Node) -> bool:
    """Return whether a node is null."""
    return node is None or (type(node) is Scalar and node.is_null)


def as_text(node: Node) -> str | None:
    """Return a text."""
    if isinstance(node, str):
        return node
    return node.text if type(node) is Scalar and node.is_text else None


def _plain(node: Node, pattern: str) -> str | None:
    """Return the text of a plain scalar that matches a pattern; a quoted one is text."""
    fits = type(node) is Scalar and not node.quoted and re.fullmatch(pattern, node.text)
    return node.text.replace("_", "") if fits else None


def as_whole(node: Node) -> int | None:
    """Return a whole number."""
    if isinstance(node, int):
        return None if isinstance(node, bool) else node
    digits = _plain(node, _INT)
    return None if digits is None else int(digits)


def as_number(node: Node) -> float | None:
    """Return a number."""
    if isinstance(node, int | float):
        return None if isinstance(node, bool) else node
    digits = _plain(node, _FLOAT)
    return None if digits is None else float(digits)


def as_flag(node: Node) -> bool | None:
    """Return a boolean."""
    if isinstance(node, bool):
        return node
    word = node.text.lower() if type(node) is Scalar and not node.quoted else ""
    return word == "true" if word in {"true", "false"} else None


def as_time(node: Node) -> datetime | None:
    """Return a time, from ISO 8601."""
    text = node.text if type(node) is Scalar else node
    if not isinstance(text, str):
        return text if isinstance(text, datetime) else None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def as_list(node: Node) -> list[Node] | None:
    """Return a list."""
    if isinstance(node, list):
        return node
    return list(node) if isinstance(node, tuple) else None


def as_mapping(node: Node) -> Mapping[str, Node] | None:
    """Return a mapping."""
    return node if isinstance(node, Mapping) else None


def looks_like_a_number(node: Node) -> bool:
    """Return whether a node would be a number without its quotes."""
    return type(node) is Scalar and node.quoted and re.fullmatch(_FLOAT, node.text) is not None


def describe(node: Node) -> str:
    """Describe a node's type in a few words."""
    for kind, words in _WORDS.items():
        if isinstance(node, kind):
            return words
    if is_null(node):
        return "nothing"
    if type(node) is Scalar:
        return f"the text {short(node.text)!r}" if node.quoted else short(node.text)
    try:
        return short(str(node).lower() if isinstance(node, bool) else repr(node))
    except ValueError:  # Python formats no number of thousands of digits
        return "a very long number"


_WORDS: Final[Mapping[type, str]] = {
    Mapping: "keys and values",
    list: "a list",
    tuple: "a list",
    Refused: "something refused",
}


class NoJsonObject(ValueError):
    """A text is not a JSON object; the message says why."""


def parse_json(data: bytes) -> dict[str, Any]:
    """Parse a JSON object in UTF-8; `NaN` and `Infinity` are not accepted.

    Raises:
        NoJsonObject: It is not a JSON object.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except RecursionError:
        raise NoJsonObject("it is nested too deeply") from None
    except ValueError as error:
        raise NoJsonObject(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise NoJsonObject(f"expected an object, found {describe(found)}")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
