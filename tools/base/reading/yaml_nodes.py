"""The one reader of YAML: text to nodes that know their line.

Strict: one document of mappings, lists and scalars; anchors, aliases, tags, duplicate keys and keys
that are not text are faults. All faults are collected, instead of the first one raised. Bounded:
however large and hostile a text, reading stops soon after the text proves not to be what was
expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import frozen

from .nodes import Faults, ListNode, MappingNode, Node, Refused, Scalar, describe, short

if TYPE_CHECKING:
    import yaml

_MAX_DEPTH: Final = 8
_BLANK_LINES: Final = "\n" * (1 << 20)
"""More than a person writes; libyaml takes a second for thirty times as many."""
_SURROGATE_RE: Final = re.compile("[\ud800-\udfff]")
_NO_CALLS: Final[MappingType[str, Any]] = MappingProxyType({})

_T = TypeVar("_T")


class _ReadingStopped(Exception):
    """Reading stopped; the collected faults say why."""


def read_document(
    text: str,
    faults: Faults,
    make: Callable[[MappingNode], _T | None],
    *,
    what: str = "workflow",
    max_depth: int = _MAX_DEPTH,
    max_width: int | None = None,
    on_field: MappingType[str, Callable[[Node], object]] = _NO_CALLS,
    on_item: MappingType[str, Callable[[int, Node], object]] = _NO_CALLS,
) -> _T | None:
    """Parse a document of fields.

    Args:
        text: One YAML document.
        faults: Collects the faults.
        make: Converts the document's fields to the result.
        what: What the document is, for messages.
        max_depth: The maximum nesting.
        max_width: The maximum of fields or items of a mapping or list; None: unbounded.
        on_field: Called with the value of a top-level field, by its name, as soon as it is read.
        on_item: Called with the index and each item of a top-level list, by the field's name, as
            soon as it is read; the return value replaces the item. Such a list may be of any
            length.

    Returns:
        The result; None, with a fault, if the document has no fields or too many faults.
    """

    def made(root: Node) -> _T | None:
        if isinstance(root, MappingNode):
            return make(root)
        if root is not None and not isinstance(root, Refused):
            faults.add("", f"expected the keys of a {what}, found {describe(root)}", root.line)
        return None

    return _read(
        text,
        faults,
        made,
        what=what,
        max_depth=max_depth,
        max_width=max_width,
        on_field=on_field,
        on_item=on_item,
    )


def read_node(text: str, faults: Faults, make: Callable[[Node], _T | None], what: str) -> _T | None:
    """Parse a document that may also be a list or a single value; see `read_document`."""
    return _read(text, faults, make, what=what)


def _read(text: str, faults: Faults, make: Callable[[Node], _T | None], **form: Any) -> _T | None:
    """Parse a document; `form` has the fields of a composer."""
    blank = text.find(_BLANK_LINES)
    if blank >= 0:
        line = text.count("\n", 0, blank) + 2
        faults.add("", f"more than {len(_BLANK_LINES) - 1:,} blank lines in a row", line)
        return None
    import yaml  # slow import; files in our own form don't need it

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    except (UnicodeEncodeError, yaml.YAMLError) as error:  # pure PyYAML scans all here
        problem = error.reason if isinstance(error, UnicodeEncodeError) else str(error)
        faults.add("", f"it is not YAML: {problem}")
        return None
    try:
        return make(_Composer(yaml, loader.get_event, faults, **form).document())
    except _ReadingStopped:
        pass  # the collected faults are sufficient
    except yaml.YAMLError as error:
        _add_syntax_fault(faults, error)
    finally:
        loader.dispose()
    return None


def _add_syntax_fault(faults: Faults, error: yaml.YAMLError) -> None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "context", None)
    said = problem or " ".join(str(error).split())
    faults.add("", f"it is not YAML: {said}", 0 if mark is None else mark.line + 1)


@frozen
class _Composer:
    """Builds nodes from libyaml's events; the parameters are those of `read_document`."""

    _yaml: Any
    _next: Callable[[], yaml.Event]
    _faults: Faults
    _what: str
    _max_depth: int = _MAX_DEPTH
    _max_width: int | None = None
    _on_field: MappingType[str, Callable[[Node], object]] = _NO_CALLS
    _on_item: MappingType[str, Callable[[int, Node], object]] = _NO_CALLS

    def _fault(self, line: int, problem: str) -> None:
        self._faults.add("", problem, line)

    def document(self) -> Node:
        self._next()  # the start of the stream
        event = self._next()
        if isinstance(event, self._yaml.StreamEndEvent):
            self._fault(0, "it is empty")
            return None
        root = self._node(self._next(), 1)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, self._yaml.StreamEndEvent):
            self._fault(_line(after), f"a second document begins; a {self._what} is one")
        return root

    def _node(
        self, event: yaml.Event, depth: int, judge: Callable[[int, Node], object] | None = None
    ) -> Node:
        line = _line(event)
        if isinstance(event, self._yaml.AliasEvent):
            self._fault(line, f"an alias (*{short(str(event.anchor))}); spell it out instead")
            return Refused(line)
        if depth > self._max_depth:
            self._fault(line, f"nested deeper than a {self._what} ever is")
            raise _ReadingStopped
        anchor, tag = event.anchor, event.tag  # type: ignore[attr-defined]  # all others have both
        if anchor is not None:
            self._fault(line, "an anchor (&); spell things out where they are needed")
        if tag is not None:
            self._fault(line, f"a tag ({short(str(tag))}); a {self._what} has none")
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
            self._fault(line, "a lone surrogate, which no file can hold as UTF-8")
            return Refused(line)
        return Scalar(text, not event.implicit[0], line)

    def _sequence(
        self, line: int, depth: int, judge: Callable[[int, Node], object] | None
    ) -> ListNode:
        items = ListNode(line)
        while not isinstance(event := self._next(), self._yaml.SequenceEndEvent):
            node = self._node(event, depth + 1)
            if judge is None:
                self._check_width(len(items), node)
                items.append(node)
            else:
                items.append(judge(len(items), node))
            self._stop_after_enough()
        return items

    def _check_width(self, count: int, node: Node) -> None:
        if self._max_width is not None and count >= self._max_width:
            said = f"more than {self._max_width:,} fields or items; a {self._what} has fewer"
            self._fault(node.line, said)
            raise _ReadingStopped

    def _stop_after_enough(self) -> None:
        if self._faults.is_full:
            raise _ReadingStopped

    def _mapping(self, line: int, depth: int) -> MappingNode:
        fields = MappingNode(line)
        key_lines = fields.key_lines
        while not isinstance(event := self._next(), self._yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            name = key.text if isinstance(key, Scalar) else None
            outer = depth == 1 and name is not None and name not in fields
            judge = self._on_item.get(name) if outer and name is not None else None
            value = self._node(self._next(), depth + 1, judge)
            if name is None:
                if not isinstance(key, Refused):
                    self._fault(key.line, "a key that is no text")
            elif name in fields:
                self._fault(
                    key.line,
                    f"the key {short(name)!r} stands twice (first on line {key_lines[name]})",
                )
            else:
                self._check_width(len(fields), key)
                fields[name] = value
                key_lines[name] = key.line
                if depth == 1 and name in self._on_field:
                    self._on_field[name](value)
            self._stop_after_enough()
        return fields


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0
