"""The one reader of YAML: text to nodes that know their line, and typed fields out of nodes.

Strict: one document of mappings, lists and scalars; anchors, aliases, tags, keys that stand twice
and keys that are no text are faults. Everything that is wrong is collected, instead of the first
fault raised. Bounded: however large and hostile a text, reading stops soon after it has shown that
it is not what was expected.

The module is longer than most: what is read and what is wrong with it are reported in the same
words for every file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import yaml

MAX_FAULTS: Final = 100
"""After so many faults reading stops."""
_MAX_DEPTH: Final = 8
_BLANK_LINES: Final = "\n" * (1 << 20)
"""More than a person writes; libyaml takes a second for thirty times as many."""
_STR: Final = "tag:yaml.org,2002:str"
_NULL_RE: Final = re.compile(r"~|null|Null|NULL|")
_INT_RE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,24})")
_FLOAT_RE: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]{0,24})(?:\.[0-9]{0,24})?(?:[eE][-+]?[0-9]{1,3})?"
)
_LONG: Final = 1000
_LONG_NUMBER_RE: Final = re.compile(
    # Possessive: the library's own expressions take seconds for megabytes of digits.
    r"[-+]?[0-9][0-9_]*+(?::[0-5]?[0-9])*+(?:\.[0-9_]*+)?"
)
_NO_CALLS: Final[MappingType[str, Any]] = MappingProxyType({})
_SURROGATE_RE: Final = re.compile("[\ud800-\udfff]")

_T = TypeVar("_T")


class TooManyFaults(Exception):
    """Reading stopped; the collected faults say why."""


@dataclass(frozen=True, slots=True, eq=False)
class Faults:
    """Everything that is wrong, each with the line it is on."""

    _found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        """Remember a fault on a line, counted from 1; 0 if it is on none.

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


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A single value.

    Attributes:
        text: The value as text.
        quoted: Whether it is quoted or a block, and so text whatever it looks like.
        line: Where it begins, from 1.
    """

    text: str
    quoted: bool
    line: int

    @property
    def is_text(self) -> bool:
        """Whether it is text to PyYAML, as to most readers of YAML 1.1."""
        return self.quoted or _is_text(self.text)

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return not self.quoted and _NULL_RE.fullmatch(self.text) is not None


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list: its nodes, or what `on_item` made of them."""

    items: list[Any]
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """Something whose fault is reported already."""

    line: int


Node = Scalar | Mapping | Sequence | Refused


@cache
def _resolvers() -> MappingType[str | None, Any]:
    import yaml

    return yaml.SafeLoader.yaml_implicit_resolvers


def _is_text(plain: str) -> bool:
    if len(plain) > _LONG:
        return _LONG_NUMBER_RE.fullmatch(plain) is None
    resolvers = _resolvers()
    for tag, pattern in (*resolvers.get(plain[:1], ()), *resolvers.get(None, ())):
        if pattern.match(plain):
            return bool(tag == _STR)
    return True


def read_document(
    text: str,
    faults: Faults,
    make: Callable[[Mapping], _T | None],
    *,
    what: str = "workflow",
    max_depth: int = _MAX_DEPTH,
    max_width: int | None = None,
    on_field: MappingType[str, Callable[[Node], object]] = {},  # never changed
    on_item: MappingType[str, Callable[[int, Node], object]] = {},
) -> _T | None:
    """Read a document of fields.

    Args:
        text: One YAML document.
        faults: Takes what is wrong.
        make: Makes the value that is meant of the document's fields.
        what: What the document is, for messages.
        max_depth: How deep it may be nested.
        max_width: How many fields or items a mapping or list may have; None bounds none.
        on_field: Called with the value of a field of the document itself, by its name, as soon as
            it is read.
        on_item: Called with each item of a list that is a field of the document itself, by the
            field's name, and with the item's index, as soon as it is read; the list has what it
            returns in the item's place. Such a list may be of any length.

    Returns:
        What was made; None, and a fault, if the document has no fields or too much is wrong.
    """
    blank = text.find(_BLANK_LINES)
    if blank >= 0:
        line = text.count("\n", 0, blank) + 2
        faults.add(line, f"more than {len(_BLANK_LINES) - 1:,} blank lines in a row")
        return None
    import yaml  # takes long to load, and files that are as we write them need none of it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    composer = _Composer(
        yaml, loader.get_event, faults, what, max_depth, max_width, on_field, on_item
    )
    try:
        root = composer.document()
        if isinstance(root, Mapping):
            return make(root)
        if root is not None and not isinstance(root, Refused):
            faults.add(root.line, f"expected the keys of a {what}, found {describe(root)}")
    except TooManyFaults:
        pass  # they say enough
    except yaml.YAMLError as error:
        _add_syntax_fault(faults, error)
    finally:
        loader.dispose()
    return None


def _add_syntax_fault(faults: Faults, error: yaml.YAMLError) -> None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "context", None)
    told = problem or " ".join(str(error).split())
    faults.add(0 if mark is None else mark.line + 1, f"it is not YAML: {told}")


@dataclass(frozen=True, slots=True)
class _Composer:
    """Builds nodes from libyaml's events; the parameters are those of `read_document`."""

    _yaml: Any
    _next: Callable[[], yaml.Event]
    _faults: Faults
    _what: str
    _max_depth: int
    _max_width: int | None
    _on_field: MappingType[str, Callable[[Node], object]]
    _on_item: MappingType[str, Callable[[int, Node], object]]

    def document(self) -> Node | None:
        self._next()  # the beginning of the stream
        event = self._next()
        if isinstance(event, self._yaml.StreamEndEvent):
            self._faults.add(0, "it is empty")
            return None
        root = self._node(self._next(), 1)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, self._yaml.StreamEndEvent):
            self._faults.add(_line(after), f"a second document begins; a {self._what} is one")
        return root

    def _node(
        self, event: yaml.Event, depth: int, judge: Callable[[int, Node], object] | None = None
    ) -> Node:
        line = _line(event)
        if isinstance(event, self._yaml.AliasEvent):
            self._faults.add(line, f"an alias (*{_short(str(event.anchor))}); spell it out instead")
            return Refused(line)
        if depth > self._max_depth:
            self._faults.add(line, f"nested deeper than a {self._what} ever is")
            raise TooManyFaults
        anchor, tag = event.anchor, event.tag  # type: ignore[attr-defined]  # all others have both
        if anchor is not None:
            self._faults.add(line, "an anchor (&); spell things out where they are needed")
        if tag is not None:
            self._faults.add(line, f"a tag ({_short(str(tag))}); a {self._what} has none")
        if isinstance(event, self._yaml.ScalarEvent):
            return self._scalar(event, line)
        if isinstance(event, self._yaml.MappingStartEvent):
            return self._mapping(line, depth)
        return self._sequence(line, depth, judge)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Node:
        text = event.value
        if event.tag is not None:
            return Refused(line)
        if not text.isascii() and _SURROGATE_RE.search(text):
            self._faults.add(line, "a lone surrogate, which no file can hold as UTF-8")
            return Refused(line)
        return Scalar(text, not event.implicit[0], line)

    def _sequence(
        self, line: int, depth: int, judge: Callable[[int, Node], object] | None
    ) -> Sequence:
        items: list[Any] = []
        while not isinstance(event := self._next(), self._yaml.SequenceEndEvent):
            node = self._node(event, depth + 1)
            if judge is None:
                self._check_width(len(items), node)
                items.append(node)
            else:
                items.append(judge(len(items), node))
        return Sequence(items, line)

    def _check_width(self, count: int, node: Node) -> None:
        if self._max_width is not None and count >= self._max_width:
            told = f"more than {self._max_width:,} fields or items; a {self._what} has fewer"
            self._faults.add(node.line, told)
            raise TooManyFaults

    def _mapping(self, line: int, depth: int) -> Mapping:
        fields: dict[str, Node] = {}
        key_lines: dict[str, int] = {}
        while not isinstance(event := self._next(), self._yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            name = key.text if isinstance(key, Scalar) else None
            outer = depth == 1 and name is not None and name not in fields
            judge = self._on_item.get(name) if outer and name is not None else None
            value = self._node(self._next(), depth + 1, judge)
            if name is None:
                if not isinstance(key, Refused):
                    self._faults.add(key.line, "a key that is no text")
            elif name in fields:
                self._faults.add(
                    key.line,
                    f"the key {_short(name)!r} stands twice (first on line {key_lines[name]})",
                )
            else:
                self._check_width(len(fields), key)
                fields[name] = value
                key_lines[name] = key.line
                if depth == 1 and name in self._on_field:
                    self._on_field[name](value)
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
        if not isinstance(node, Mapping):
            self.unexpected("", "keys and values", node)

    def fault(self, name: str, problem: str, node: Node | None = None) -> None:
        """Say what is wrong with a field (or, with no name, with the mapping itself)."""
        label = self.label(name)
        line = self._key_lines.get(name) or (self.line if node is None else node.line)
        self._faults.add(line, f"{label}: {problem}" if label else problem)

    def label(self, name: str) -> str:
        """Return a field's name with where it stands, for messages."""
        return f"{self._where}{'.' if self._where and name else ''}{_short(name)}"

    def unexpected(self, name: str, expected: str, node: Node, *, hint: str = "") -> None:
        """Say that a field is not what was expected; what is refused has its fault."""
        if not isinstance(node, Refused):
            self.fault(name, f"expected {expected}, found {describe(node)}{hint}", node)

    def take(self, name: str, *, required: bool = False) -> Node | None:
        """Take a field as it is; None, and if it is required a fault, when it is not there."""
        self._asked.append(name)
        node = self._left.pop(name, None)
        if isinstance(node, Scalar) and node.is_null:
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
        if isinstance(node, Scalar) and node.is_text:
            return node.text
        hint = "; put it in quotes" if isinstance(node, Scalar) else ""
        self.unexpected(name, "text", node, hint=hint)
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
        digits = self._number(name, node, _INT_RE, "a whole number")
        if digits is None:
            return default
        value = int(digits)
        if not least <= value <= most:
            self.fault(name, f"{value} is not from {least} to {most}", node)
            return default
        return value

    def seconds(self, name: str, *, most: float) -> float | None:
        """Take a number of seconds above 0."""
        node = self.take(name)
        digits = self._number(name, node, _FLOAT_RE, "a number of seconds")
        if digits is None:
            return None
        value = float(digits)
        if not 0 < value <= most:
            self.fault(name, f"{digits} is not above 0 and at most {most:g} seconds", node)
            return None
        return value

    def _number(
        self, name: str, node: Node | None, pattern: re.Pattern[str], expected: str
    ) -> str | None:
        """Return the digits of a number; None, and a fault, if it is none."""
        # What is quoted is text, even if it looks like a number; `1e3` is text to YAML 1.1.
        if isinstance(node, Scalar) and not node.quoted and pattern.fullmatch(node.text):
            return node.text.replace("_", "")
        if node is not None:
            self.no_number(name, expected, node)
        return None

    def no_number(self, name: str, expected: str, node: Node) -> None:
        """Say that a field is no number as expected."""
        quoted = isinstance(node, Scalar) and node.quoted and _FLOAT_RE.fullmatch(node.text)
        self.unexpected(name, expected, node, hint="; take its quotes away" if quoted else "")

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Take true or false."""
        node = self.take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and not node.quoted and node.text.lower() in {"true", "false"}:
            return node.text.lower() == "true"
        self.unexpected(name, "true or false", node)
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
        if node is not None:
            self.unexpected(name, "a list", node)
        return []

    def refuse(self, name: str, problem: str) -> None:
        """Refuse a field, if it is there, with words of its own."""
        node = self._left.pop(name, None)
        if node is not None:
            self.fault(name, problem, node)

    def done(self) -> None:
        """Refuse the keys that were not taken."""
        where = f"{self._where}: " if self._where else ""
        for name in self._left:
            self._faults.add(
                self._key_lines[name],
                f"{where}{_short(name)!r} is no key here{_meant(name, self._asked)}",
            )


def _meant(name: str, known: Collection[str]) -> str:
    import difflib

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
        if node.is_null:
            return "nothing"
        return f"the text {_short(node.text)!r}" if node.quoted else _short(node.text)
    return "something refused"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0
