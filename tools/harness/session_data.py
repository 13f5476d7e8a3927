"""The data of a history entry in a session file: block YAML, one form of each value.

What we wrote ourselves is read back without a YAML parser: the reader only has to understand what
the writer writes, for what it has read is written again and compared. A file of another program may
have the data in any form of YAML; `value_of` takes it from the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from .session_newer import is_text
from .session_nodes import MappingNode, Node, Scalar
from .session_scalars import (
    PLAIN,
    NotOurs,
    decode_block,
    decode_name,
    decode_text,
    encode_key,
    encode_text,
)

_INDENT: Final = 6
_STEP: Final = 2
_MAX_DEPTH: Final = 20
_QUOTED: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_FIELD_RE: Final = re.compile(rf"({PLAIN}|{_QUOTED}):(?: (.++))?")
_INT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]{0,18}")
_FLOAT_RE: Final = re.compile(r"[-+]?[0-9]{1,400}\.[0-9]{0,400}(?:[eE][-+][0-9]{1,3})?")
_NUMBERS: Final = ((_INT_RE, int), (_FLOAT_RE, float))
_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
"""What YAML 1.1 takes for nothing, true and false."""
_OWN_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "[]": (), "{}": {}}
_encode_key: Final = lru_cache(maxsize=512)(encode_key)


# ------------------------------------------------------------------------------------------ writing


def encode_data(data: Mapping[str, Any]) -> str:
    """Write an entry's data as a field; nothing if it is empty."""
    return f"    data:\n{_fields(data, _INDENT)}" if data else ""


def _fields(data: Mapping[str, Any], indent: int) -> str:
    margin = " " * indent
    return "".join(
        f"{margin}{_encode_key(name)}:{_value(value, indent)}" for name, value in data.items()
    )


def _value(value: Any, indent: int) -> str:
    """Write what follows a field's colon or an item's dash, with the end of its last line."""
    inner = indent + _STEP
    if isinstance(value, dict):
        return f"\n{_fields(value, inner)}" if value else " {}\n"
    if isinstance(value, tuple):
        return "\n" + "".join(_item(one, inner) for one in value) if value else " []\n"
    return f" {_scalar(value, inner)}\n"


def _item(value: Any, indent: int) -> str:
    if isinstance(value, dict) and value:
        return f"{' ' * indent}- {_fields(value, indent + _STEP)[indent + _STEP :]}"
    return f"{' ' * indent}-{_value(value, indent)}"


def _scalar(value: Any, indent: int) -> str:
    if value is None or isinstance(value, str):
        return encode_text(value, indent=indent)
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    told = repr(value)
    # To YAML 1.1, a number with an exponent has a point.
    return told.replace("e", ".0e") if "e" in told and "." not in told else told


# ------------------------------------------------------------------ reading what we wrote ourselves


def decode_data(text: str) -> dict[str, Any]:
    """Read back the lines that `encode_data` wrote below the field; `NotOurs` if it did not."""
    lines = text.split("\n")
    if lines.pop():
        raise NotOurs
    data, end = _read_fields(lines, 0, _INDENT)
    if end != len(lines) or _fields(data, _INDENT) != text:
        raise NotOurs
    return data


def _read_fields(lines: list[str], position: int, indent: int) -> tuple[dict[str, Any], int]:
    if indent > _INDENT + _STEP * _MAX_DEPTH:
        raise NotOurs
    data: dict[str, Any] = {}
    margin = " " * indent
    while position < len(lines) and lines[position].startswith(margin):
        found = _FIELD_RE.fullmatch(lines[position], indent)
        if found is None:
            raise NotOurs
        name = decode_name(found[1])
        data[name], position = _read_value(found[2] or "", lines, position + 1, indent)
    return data, position


def _read_value(rest: str, lines: list[str], position: int, indent: int) -> tuple[Any, int]:
    inner = indent + _STEP
    if rest.startswith("|"):
        margin, begin = " " * inner, position
        while position < len(lines) and (not lines[position] or lines[position].startswith(margin)):
            position += 1
        block = "\n".join([rest, *lines[begin:position], ""])
        return decode_block(block, margin), position
    if rest:
        return _read_scalar(rest), position
    if position < len(lines) and lines[position].startswith(f"{' ' * inner}-"):
        return _read_items(lines, position, inner)
    return _read_fields(lines, position, inner)


def _read_items(lines: list[str], position: int, indent: int) -> tuple[tuple[Any, ...], int]:
    if indent > _INDENT + _STEP * _MAX_DEPTH:
        raise NotOurs
    items = []
    dash = f"{' ' * indent}-"
    while position < len(lines) and lines[position].startswith(dash):
        rest = lines[position][indent + _STEP :]
        if _FIELD_RE.fullmatch(rest):
            lines[position] = f"{' ' * (indent + _STEP)}{rest}"
            item, position = _read_fields(lines, position, indent + _STEP)
        else:
            item, position = _read_value(rest, lines, position + 1, indent)
        items.append(item)
    return tuple(items), position


def _read_scalar(text: str) -> Any:
    if text[0] in "-0123456789":
        for pattern, read in _NUMBERS:
            if pattern.fullmatch(text):
                return read(text)
    elif text in _OWN_WORDS:
        return _OWN_WORDS[text]
    return decode_text(text)


# ------------------------------------------------------------------------- reading any form of YAML


class NotData(Exception):
    """A value of a file is none that data may hold.

    Attributes:
        node: The value.
    """

    def __init__(self, node: Scalar) -> None:
        super().__init__(node.text)
        self.node = node


def value_of(node: Node) -> Any:
    """Return what a value of a file is to JSON.

    Raises:
        NotData: It is nothing that JSON has, as a date.
    """
    if isinstance(node, MappingNode):
        return {name: value_of(one) for name, one in node.fields.items()}
    if not isinstance(node, Scalar):
        return tuple(map(value_of, node.items))
    if not node.plain:
        return node.text
    text = node.text
    if text in _WORDS:
        return _WORDS[text]
    for pattern, read in _NUMBERS:
        if pattern.fullmatch(text):
            return read(text)
    if is_text(text):
        return text
    raise NotData(node)
