"""Fields that a newer version wrote: kept as YAML, so that a save does not lose them.

They are kept as text, with no margin; a save writes them after the fields that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from .session_nodes import MappingNode, Node, Scalar
from .session_scalars import encode_key, encode_text

_STEP: Final = 2
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_LONG: Final = 1000
_LONG_NUMBER_RE: Final = re.compile(
    # Possessive: the library's own expressions take seconds for megabytes of digits.
    r"[-+]?[0-9][0-9_]*+(?::[0-5]?[0-9])*+(?:\.[0-9_]*+)?"
)


@cache
def _resolvers() -> Mapping[str | None, Any]:
    import yaml  # takes long to load, and no session of this version needs it

    return yaml.SafeLoader.yaml_implicit_resolvers


def is_text(plain: str) -> bool:
    """Return whether a scalar without quotes is text to PyYAML, as to most YAML 1.1 readers."""
    if len(plain) > _LONG:
        return _LONG_NUMBER_RE.fullmatch(plain) is None
    first = plain[:1]
    resolvers = _resolvers()
    for tag, pattern in (*resolvers.get(first, ()), *resolvers.get(None, ())):
        if pattern.match(plain):
            return bool(tag == _TEXT_TAG)
    return True


def keep(fields: Mapping[str, Node]) -> str:
    """Return fields as YAML that reads to the same values."""
    return "".join(_field(name, node, 0) for name, node in fields.items())


def indented(kept: str, margin: str) -> str:
    """Return what was kept, moved to where it is written."""
    if not kept or not margin:
        return kept
    return "\n".join(f"{margin}{line}" if line else line for line in kept.split("\n"))


def _field(name: str, node: Node, indent: int) -> str:
    return f"{' ' * indent}{encode_key(name)}:{_value(node, indent)}"


def _value(node: Node, indent: int) -> str:
    """Write what follows a field's colon or an item's dash, with the end of its last line."""
    inner = indent + _STEP
    if isinstance(node, Scalar):
        return f" {_scalar(node, inner)}\n"
    if isinstance(node, MappingNode):
        if not node.fields:
            return " {}\n"
        return "\n" + "".join(_field(name, one, inner) for name, one in node.fields.items())
    if not node.items:
        return " []\n"
    return "\n" + "".join(f"{' ' * inner}-{_value(item, inner)}" for item in node.items)


def _scalar(node: Scalar, indent: int) -> str:
    if node.plain and not is_text(node.text):
        return node.text or "null"
    return encode_text(node.text, indent=indent)
