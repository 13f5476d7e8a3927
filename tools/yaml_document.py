"""YAML as nodes that know their line, with every fault collected instead of the first one raised.

Only what a workflow needs is taken: one document of mappings, lists and scalars. Anchors, aliases,
tags, keys that stand twice and keys that are no text are faults; reading goes on behind them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import yaml
from attrs import field, frozen

MAX_FAULTS: Final = 100
"""After so many faults reading stops."""
_MAX_DEPTH: Final = 8
_STR: Final = "tag:yaml.org,2002:str"
_NULL: Final = "tag:yaml.org,2002:null"
_INT_RE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,24})")
_FLOAT_RE: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]{0,24})(?:\.[0-9]{0,24})?(?:[eE][-+]?[0-9]{1,3})?"
)
_SURROGATE_RE: Final = re.compile("[\ud800-\udfff]")


_T = TypeVar("_T")


class TooManyFaults(Exception):
    """Reading stopped; the collected faults say why."""


@frozen(eq=False)
class Faults:
    """Everything that is wrong, each with the line it is on."""

    _found: list[tuple[int, str]] = field(factory=list)

    def add(self, line: int, text: str) -> None:
        """Remember a fault.

        Args:
            line: Its line, from 1; 0 if it has none.
            text: What is wrong.

        Raises:
            TooManyFaults: There are enough of them now.
        """
        self._found.append((line, f"line {line}: {text}" if line else text))
        if len(self._found) >= MAX_FAULTS:
            raise TooManyFaults

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> list[str]:
        """Return the faults in the order of their lines."""
        return [text for _, text in sorted(self._found, key=lambda one: one[0])]


@frozen(eq=False)
class Scalar:
    """A single value.

    Attributes:
        text: The value as text.
        kind: The YAML 1.1 tag that it resolves to.
        quoted: Whether it is quoted or a block, and so text whatever it looks like.
        line: Where it begins, from 1.
    """

    text: str
    kind: str
    quoted: bool
    line: int


@frozen(eq=False)
class Mapping:
    """Fields, in the order of the file.

    Attributes:
        fields: The values by key.
        key_lines: On which line each key stands.
        line: Where the first of them begins.
    """

    fields: dict[str, Node]
    key_lines: dict[str, int]
    line: int


@frozen(eq=False)
class Sequence:
    """A list."""

    items: list[Node]
    line: int


@frozen(eq=False)
class Refused:
    """Something whose fault is told already."""

    line: int


Node = Scalar | Mapping | Sequence | Refused


def parse(
    text: str, faults: Faults, *, what: str = "workflow", max_depth: int = _MAX_DEPTH
) -> Node | None:
    """Turn text into nodes.

    Args:
        text: One YAML document.
        faults: Takes what is wrong.
        what: What the document is, for messages.
        max_depth: How deep it may be nested.

    Returns:
        The document's root; None, and a fault, if it is no YAML or empty.

    Raises:
        TooManyFaults: There are too many faults to go on.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return _Composer(loader, faults, what, max_depth).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        faults.add(
            mark.line + 1 if mark is not None else 0,
            f"it is not YAML: {error.problem or error.context}",
        )
    except yaml.YAMLError as error:
        faults.add(0, f"it is not YAML: {' '.join(str(error).split())}")
    finally:
        loader.dispose()
    return None


def read_document(
    text: str,
    faults: Faults,
    make: Callable[[Mapping], _T | None],
    *,
    what: str = "workflow",
    max_depth: int = _MAX_DEPTH,
) -> _T | None:
    """Read a document of fields.

    Args:
        text: One YAML document.
        faults: Takes what is wrong.
        make: Makes the value that is meant of the document's fields.
        what: What the document is, for messages.
        max_depth: How deep it may be nested.

    Returns:
        What was made; None, and a fault, if the document has no fields or too much is wrong.
    """
    try:
        root = parse(text, faults, what=what, max_depth=max_depth)
        if isinstance(root, Mapping):
            return make(root)
        if root is not None and not isinstance(root, Refused):
            faults.add(root.line, f"expected the keys of a {what}, found {describe(root)}")
    except TooManyFaults:
        pass  # they say enough
    return None


class _Composer:
    """Builds nodes from events."""

    def __init__(self, loader: yaml.SafeLoader, faults: Faults, what: str, max_depth: int) -> None:
        self._next: Callable[[], yaml.Event] = loader.get_event
        self._resolve: Callable[[type[yaml.Node], str, tuple[bool, bool]], str] = loader.resolve
        self._faults = faults
        self._what = what
        self._max_depth = max_depth

    def document(self) -> Node | None:
        self._next()  # the beginning of the stream
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            self._faults.add(0, "it is empty")
            return None
        root = self._node(self._next(), depth=1)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            self._faults.add(_line(after), f"a second document begins; a {self._what} is one")
        return root

    def _node(self, event: yaml.Event, *, depth: int) -> Node:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            self._faults.add(line, f"an alias (*{_short(str(event.anchor))}); spell it out instead")
            return Refused(line)
        if depth > self._max_depth:
            self._faults.add(line, f"nested deeper than a {self._what} ever is")
            raise TooManyFaults
        if getattr(event, "anchor", None) is not None:
            self._faults.add(line, "an anchor (&); spell things out where they are needed")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._faults.add(line, f"a tag ({_short(str(tag))}); a {self._what} has none")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, line)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(line, depth)
        items = []
        while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(inner, depth=depth + 1))
        return Sequence(items, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Node:
        if event.tag is not None:
            return Refused(line)
        if _SURROGATE_RE.search(event.value):
            self._faults.add(line, "a lone surrogate, which no file can hold as UTF-8")
            return Refused(line)
        plain = event.implicit[0]
        kind = self._resolve(yaml.ScalarNode, event.value, (True, False)) if plain else _STR
        return Scalar(event.value, kind, not plain, line)

    def _mapping(self, line: int, depth: int) -> Mapping:
        fields: dict[str, Node] = {}
        key_lines: dict[str, int] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth=depth + 1)
            value = self._node(self._next(), depth=depth + 1)
            if isinstance(key, Refused):
                continue
            if not isinstance(key, Scalar):
                self._faults.add(key.line, "a key that is no text")
            elif key.text in fields:
                self._faults.add(
                    key.line,
                    f"the key {_short(key.text)!r} stands twice "
                    f"(first on line {key_lines[key.text]})",
                )
            else:
                fields[key.text] = value
                key_lines[key.text] = key.line
        return Mapping(fields, key_lines, line)


class Fields:
    """Takes typed fields out of a mapping; whatever is wrong goes to the faults.

    A field that is there and null counts as not there.
    """

    def __init__(self, node: Node, where: str, faults: Faults) -> None:
        self.line = node.line
        self.usable = isinstance(node, Mapping)
        self._where = where
        self._faults = faults
        self._left: dict[str, Node] = dict(node.fields) if isinstance(node, Mapping) else {}
        self._key_lines = node.key_lines if isinstance(node, Mapping) else {}
        self._asked: list[str] = []
        if not isinstance(node, Mapping | Refused):
            self.fault("", f"expected keys and values, found {describe(node)}", node)

    def fault(self, name: str, problem: str, node: Node | None = None) -> None:
        """Say what is wrong with a field (or, with no name, with the mapping itself)."""
        label = f"{self._where}{'.' if self._where and name else ''}{name}"
        line = self._key_lines.get(name) or (self.line if node is None else node.line)
        self._faults.add(line, f"{label}: {problem}" if label else problem)

    def take(self, name: str, *, required: bool = False) -> Node | None:
        """Take a field as it is; None, and if it is required a fault, when it is not there."""
        self._asked.append(name)
        node = self._left.pop(name, None)
        if isinstance(node, Scalar) and node.kind == _NULL:
            if required:
                self.fault(name, "is empty", node)
            return None
        if node is None and required and self.usable:
            self.fault(name, "is missing")
        return node

    def text(self, name: str, *, required: bool = False) -> str | None:
        """Take text."""
        node = self.take(name, required=required)
        return None if node is None else self.text_of(name, node)

    def text_of(self, name: str, node: Node) -> str | None:
        """Return the text of a node; None, and a fault, if it is none."""
        if isinstance(node, Scalar):
            if node.kind == _STR:
                return node.text
            self.fault(name, f"expected text, found {describe(node)}; put it in quotes", node)
        elif not isinstance(node, Refused):
            self.fault(name, f"expected text, found {describe(node)}", node)
        return None

    def name(self, name: str, pattern: re.Pattern[str], rule: str) -> str | None:
        """Take a required text that has to fit a pattern."""
        node = self.take(name, required=True)
        text = None if node is None else self.text_of(name, node)
        if text is not None and not pattern.fullmatch(text):
            self.fault(name, f"{_short(text)!r} is no name here; {rule}", node)
            return None
        return text

    def whole(self, name: str, default: int | None, *, least: int, most: int) -> int | None:
        """Take a whole number."""
        node = self.take(name)
        if node is None:
            return default
        if not isinstance(node, Scalar) or not self._is_number(node, _INT_RE):
            self._no_number(name, node, "a whole number")
            return default
        value = int(node.text.replace("_", ""))
        if not least <= value <= most:
            self.fault(name, f"{value} is not from {least} to {most}", node)
            return default
        return value

    def seconds(self, name: str, *, most: float) -> float | None:
        """Take a number of seconds above 0."""
        node = self.take(name)
        if node is None:
            return None
        if not isinstance(node, Scalar) or not self._is_number(node, _FLOAT_RE):
            self._no_number(name, node, "a number of seconds")
            return None
        value = float(node.text.replace("_", ""))
        if not 0 < value <= most:
            self.fault(name, f"{node.text} is not above 0 and at most {most:g} seconds", node)
            return None
        return value

    @staticmethod
    def _is_number(node: Scalar, pattern: re.Pattern[str]) -> bool:
        # What is quoted is text, even if it looks like a number; `1e3` is text to YAML 1.1.
        return not node.quoted and pattern.fullmatch(node.text) is not None

    def _no_number(self, name: str, node: Node, expected: str) -> None:
        if isinstance(node, Refused):
            return
        hint = ""
        if isinstance(node, Scalar) and node.quoted and _FLOAT_RE.fullmatch(node.text):
            hint = "; take its quotes away"
        self.fault(name, f"expected {expected}, found {describe(node)}{hint}", node)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Take true or false."""
        node = self.take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and not node.quoted and node.text.lower() in {"true", "false"}:
            return node.text.lower() == "true"
        if not isinstance(node, Refused):
            self.fault(name, f"expected true or false, found {describe(node)}", node)
        return default

    def texts(self, name: str, *, required: bool = False) -> tuple[str, ...]:
        """Take a list of texts; each once."""
        found: list[str] = []
        for index, node in enumerate(self.items(name, required=required)):
            text = self.text_of(f"{name}[{index}]", node)
            if text is not None and text in found:
                self.fault(f"{name}[{index}]", f"{_short(text)!r} stands twice", node)
            elif text is not None:
                found.append(text)
        return tuple(found)

    def items(self, name: str, *, required: bool = False) -> list[Node]:
        """Take a list; an empty one is a fault if it is required."""
        node = self.take(name, required=required)
        if isinstance(node, Sequence):
            if required and not node.items:
                self.fault(name, "is an empty list", node)
            return node.items
        if node is not None and not isinstance(node, Refused):
            self.fault(name, f"expected a list, found {describe(node)}", node)
        return []

    def refuse(self, name: str, problem: str) -> None:
        """Refuse a field, if it is there, with words of its own."""
        node = self._left.pop(name, None)
        if node is not None:
            self.fault(name, problem, node)

    def done(self) -> None:
        """Refuse the keys that nobody asked for."""
        where = f"{self._where}: " if self._where else ""
        for name in self._left:
            self._faults.add(
                self._key_lines[name],
                f"{where}{_short(name)!r} is no key here{_meant(name, self._asked)}",
            )


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known))}"


def describe(node: Node) -> str:
    """Say in a few words what a node is."""
    if isinstance(node, Mapping):
        return "keys and values"
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Scalar):
        if node.kind == _NULL:
            return "nothing"
        return f"the text {_short(node.text)!r}" if node.quoted else _short(node.text)
    return "something refused"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0
