"""YAML to nodes, for files that are not as we write them: libyaml's events, with no surprises.

No tags, anchors or aliases, no second document, bounded depth and width; every node knows its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

if TYPE_CHECKING:
    import yaml

_MAX_DEPTH: Final = 16
_MAX_FIELDS: Final = 64
"""How many fields of one mapping are looked at."""
_MAX_ITEMS: Final = 1000
"""How many items of a list that no session of this version has are looked at."""


@frozen
class Scalar:
    """One value as text, whether it stands without quotes, and its line."""

    text: str
    plain: bool
    line: int


@frozen
class MappingNode:
    """Fields by their names, and the line they begin in."""

    fields: dict[str, Node]
    line: int


@frozen
class SequenceNode:
    """The items of a list, judged ones as what they stand for, and the line they begin in."""

    items: list[Any]
    line: int


Node = Scalar | MappingNode | SequenceNode


class Faults(Exception):
    """The file is no session; the faults say why."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


Judge = Callable[[int, "Node"], object]
"""Turns an item of a list, given with its index, into what it stands for; remembers its faults."""


_BLANK_LINES: Final = "\n" * (1 << 20)
"""More than anybody means; libyaml takes a second for thirty times as many."""


def parse(
    text: str,
    *,
    judges: Mapping[str, Judge],
    on_version: Callable[[Node], None],
) -> Node:
    """Turn text into nodes, through libyaml's events, refusing what a session never has.

    However large and hostile the text, it is given up soon after it has shown that it is no
    session: the items of the two long lists are judged as they come (and are no nodes any more),
    every other list and mapping ends early.

    Args:
        text: The file.
        judges: What judges the items of the top level's lists, by the list's name.
        on_version: Called with `schema_version` as soon as it is read.
    """
    blank = text.find(_BLANK_LINES)
    if blank >= 0:
        line = text.count("\n", 0, blank) + 2
        raise Faults(f"line {line}: more than {len(_BLANK_LINES) - 1:,} blank lines in a row")
    import yaml  # takes long to load, and files that are as we write them need none of it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return _compose(loader, _Composer(judges, on_version))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise Faults(f"{where}it is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise Faults(f"it is not YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()


class _Composer:
    """Builds nodes from events."""

    def __init__(self, judges: Mapping[str, Judge], on_version: Callable[[Node], None]) -> None:
        self.root: Node | None = None
        self._judges = judges
        self._on_version = on_version
        self._judge: Judge | None = None
        self._open: list[MappingNode | SequenceNode] = []
        self._key: str | None = None

    def close(self) -> None:
        node = self._open.pop()
        self._key = None
        if len(self._open) == 1:
            self._judge = None
        elif len(self._open) == 2 and self._judge is not None:
            parent = self._open[1]
            if isinstance(parent, SequenceNode):
                parent.items[-1] = self._judge(len(parent.items) - 1, node)

    def add(self, node: Node) -> None:
        if not self._open:
            self.root = node
        elif len(self._open) == 1 and isinstance(node, SequenceNode) and self._key is not None:
            self._judge = self._judges.get(self._key)
            self._add_to(self._open[0], node)
        elif not self._add_to(self._open[-1], node):
            return
        if isinstance(node, Scalar):
            return
        if len(self._open) >= _MAX_DEPTH:
            raise Faults(f"line {node.line}: nested deeper than a session ever is")
        self._open.append(node)

    def _add_to(self, parent: MappingNode | SequenceNode, node: Node) -> bool:
        """Put a node in its parent; say whether it is a value (and not a field's name)."""
        if isinstance(parent, SequenceNode):
            if self._judge is None or len(self._open) != 2:
                if len(parent.items) >= _MAX_ITEMS:
                    raise Faults(f"line {node.line}: a list where a session has none")
                parent.items.append(node)
            elif isinstance(node, Scalar):
                parent.items.append(self._judge(len(parent.items), node))
            else:
                parent.items.append(node)  # judged when it ends
            return True
        if self._key is None:
            if not isinstance(node, Scalar):
                raise Faults(f"line {node.line}: a field's name is not a plain text")
            if node.text in parent.fields:
                raise Faults(f"line {node.line}: the field {short(node.text)!r} stands twice")
            if len(parent.fields) >= _MAX_FIELDS:
                raise Faults(f"line {node.line}: more fields than a session has")
            self._key = node.text
            return False
        parent.fields[self._key] = node
        if self._key == "schema_version" and len(self._open) == 1:
            self._on_version(node)
        self._key = None
        return True


def _compose(loader: yaml.SafeLoader, composer: _Composer) -> Node:
    import yaml

    next_event: Callable[[], yaml.Event] = loader.get_event
    while not isinstance(event := next_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.StreamStartEvent | yaml.DocumentEndEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if isinstance(event, yaml.DocumentStartEvent):
            if composer.root is not None:
                raise Faults(f"line {line}: a second document begins; a session is one")
            continue
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            composer.close()
            continue
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Faults(f"line {line}: an anchor or alias (& or *); a session has none")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise Faults(f"line {line}: a tag ({short(str(tag))}); a session has none")
        if isinstance(event, yaml.ScalarEvent):
            composer.add(Scalar(event.value, event.implicit[0], line))
        elif isinstance(event, yaml.MappingStartEvent):
            composer.add(MappingNode({}, line))
        else:
            composer.add(SequenceNode([], line))
    if composer.root is None:
        raise Faults("it holds no YAML document")
    return composer.root


def short(text: str) -> str:
    """Shorten a text of the file for a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def kind(node: Node) -> str:
    """Say what a node is, for a message."""
    if isinstance(node, MappingNode):
        return "fields"
    if isinstance(node, SequenceNode):
        return "a list"
    return repr(short(node.text)) if node.text or not node.plain else "nothing"
