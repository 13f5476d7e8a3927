"""Encodes and decodes the values of a session's file: text, times, data.

The output is plain block YAML 1.1 that any YAML library reads to the same values. Each value has
one form only, so that our own files are decoded without a YAML parser; `NotOurs` means that a value
has another form, which `session_document` handles. The module is long because both directions of
each value are side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

# ---------------------------------------------------------------------------- writing texts, times

# Quantifiers of long parts are possessive: otherwise `re` stores 100 bytes per repetition, for
# backtracking.
PLAIN: Final = r"[A-Za-z_][A-Za-z0-9_./()+=]*+(?:[ -]++[A-Za-z0-9_./()+=]++)*+"
_PLAIN_RE: Final = re.compile(PLAIN)
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "_"})
"""Words that YAML 1.1 or 1.2, or some reader of them, takes for something other than text."""
LONGEST_RESERVED: Final = max(map(len, _RESERVED))

# Characters that a double-quoted or literal scalar may hold unescaped: YAML's printable characters
# without the line breaks of YAML 1.1, the byte order mark and the marks that reorder text on a
# screen.
RAW: Final = (
    "\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0001fffd\U00020000-\U0010fffd"
)

# Compiled on first use: `re` caches compiled patterns.
_ESCAPED_ASCII: Final = r'["\\]|[^ -~]'
_UNPRINTABLE_ASCII: Final = r"[^\n\t -~]"


@cache
def _escaped_re() -> re.Pattern[str]:
    """Match characters that are escaped in any text; the module's slowest pattern to compile."""
    return re.compile(f'["\\\\]|[^{RAW}]')


@cache
def _unprintable_re() -> re.Pattern[str]:
    return re.compile(f"[^\n\t{RAW}]")


def _escape_all(text: str) -> str:
    return re.sub(_ESCAPED_ASCII if text.isascii() else _escaped_re(), _escape, text)


def _is_printable(text: str) -> bool:
    return not re.search(_UNPRINTABLE_ASCII if text.isascii() else _unprintable_re(), text)


_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\0": "\\0",
    "\x1b": "\\e",
}
_INDICATOR: Final = "2"
"""The indentation of a literal block, relative to its field."""
_LONG_BLANKS: Final = r"(?m)^[ \t]+$"


def _needs_indicator(text: str) -> bool:
    """Return whether a block needs an explicit indentation because a reader can't detect it.

    Cheap even for a million empty lines: the pattern is tried only where it may match.
    """
    if text[0] in " \t\n":
        return True
    possible = " \n" in text or "\t\n" in text or text.endswith((" ", "\t"))
    return possible and re.search(_LONG_BLANKS, text) is not None


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encode_text(text: str | None, *, indent: int = 6) -> str:
    """Encode one text value: plain if that is unambiguous, else literal, else quoted.

    Args:
        text: The value; None becomes null.
        indent: The indentation of a literal block's lines: two more than its field's.
    """
    if text is None:
        return "null"
    plain = _PLAIN_RE.fullmatch(text)
    if plain is not None and text.lower() not in _RESERVED:
        return plain[0]  # and not `text`, whose subclass may format differently
    body = text.rstrip("\n")
    if "\n" in text and body and _is_printable(text):
        newlines = len(text) - len(body)
        chomp = ("-", "", "+")[min(newlines, 2)]
        indicator = _INDICATOR if _needs_indicator(text) else ""
        margin = " " * indent
        lines = "\n".join(f"{margin}{line}" if line else "" for line in body.split("\n"))
        return f"|{indicator}{chomp}\n{lines}{chr(10) * max(newlines - 1, 0)}"
    return f'"{_escape_all(text)}"'


def encode_key(name: str) -> str:
    """Encode a field's name: plain if that is unambiguous, else quoted."""
    if _PLAIN_RE.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return f'"{_escape_all(name)}"'


encode_name: Final = lru_cache(maxsize=512)(encode_text)
"""Cached `encode_text`: the few names of a session are written at every save."""


def encode_time(moment: datetime | None) -> str:
    """Encode a time: ISO 8601, to the microsecond, with its offset, quoted; None becomes null."""
    return "null" if moment is None else f'"{moment.isoformat(timespec="microseconds")}"'


encode_recent_time: Final = lru_cache(maxsize=64)(encode_time)
"""Cached `encode_time` for times in UTC: a save writes most of them again."""


# ------------------------------------------------------------------------------------ writing data

_INDENT: Final = 6
"""The indentation of an entry's data fields."""
OWN_INDENT: Final = 2
"""The indentation of the session's own data fields."""
_STEP: Final = 2
_encode_data_key: Final = lru_cache(maxsize=512)(encode_key)


def encode_data(data: Mapping[str, Any]) -> str:
    """Encode an entry's data as a field; empty data gives no field."""
    return f"    data:\n{_encode_fields(data, _INDENT)}" if data else ""


def encode_own_data(name: str, data: Mapping[str, Any]) -> str:
    """Encode a data field of the session itself; empty data gives no field."""
    return f"{name}:\n{_encode_fields(data, OWN_INDENT)}" if data else ""


def _encode_fields(data: Mapping[str, Any], indent: int) -> str:
    margin = " " * indent
    return "".join(
        [
            f"{margin}{_encode_data_key(name)}:{_encode_value(one, indent)}"
            for name, one in data.items()
        ]
    )


def _encode_value(value: Any, indent: int) -> str:
    """Encode what follows a field's colon or an item's dash, including the last line break."""
    inner = indent + _STEP
    if isinstance(value, dict):
        return f"\n{_encode_fields(value, inner)}" if value else " {}\n"
    if isinstance(value, tuple):
        return "\n" + "".join([_encode_item(one, inner) for one in value]) if value else " []\n"
    if value is None or isinstance(value, str):
        return f" {encode_text(value, indent=inner)}\n"
    if isinstance(value, bool):
        return " true\n" if value else " false\n"
    digits = repr(value)
    if "e" in digits and "." not in digits:
        digits = digits.replace("e", ".0e")  # YAML 1.1: a number with an exponent needs a point
    return f" {digits}\n"


def _encode_item(value: Any, indent: int) -> str:
    if isinstance(value, dict) and value:
        return f"{' ' * indent}- {_encode_fields(value, indent + _STEP)[indent + _STEP :]}"
    return f"{' ' * indent}-{_encode_value(value, indent)}"


# ---------------------------------------------------------------------------- reading texts, times

QUOTED: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
NAME: Final = f"(?:{PLAIN}|{QUOTED})"
NAME_RE: Final = re.compile(NAME)
BLOCK: Final = r"\|2?[-+]?\n(?:%s[^\n]*+\n|\n++)++"
BARE_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00"
TIME: Final = f'"{BARE_TIME}"'
COUNT: Final = r"(?:0|[1-9][0-9]{0,18})"
_UNESCAPE: Final = r'\\(?:(["\\ntr0e])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))'
_LONG_ESCAPES: Final = {short[1]: plain for plain, short in _SHORT_ESCAPES.items()}
_PLAIN_BYTES: Final = bytes([9, 10, *range(0x20, 0x7F)])


class NotOurs(Exception):
    """The file is not exactly as we write it; the careful reader must judge it."""


def _unescape(match: re.Match[str]) -> str:
    short, two, four, eight, other = match.groups()
    if short is not None:
        return _LONG_ESCAPES[short]
    if other is not None:
        raise NotOurs
    code = int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise NotOurs
    return chr(code)


def decode_text(scalar: str) -> str | None:
    """Decode plain or quoted text, or null; raise `NotOurs` if it is written differently."""
    if scalar[0] == '"':
        inner = scalar[1:-1]
        return re.sub(_UNESCAPE, _unescape, inner) if "\\" in inner else inner
    if scalar == "null":
        return None
    if scalar.lower() in _RESERVED:
        raise NotOurs
    return scalar


def decode_block(scalar: str, margin: str) -> str:
    """Decode a literal block; raise `NotOurs` if it is written differently."""
    header, _, body = scalar.partition("\n")
    text = f"\n{body}".replace(f"\n{margin}", "\n")[1:]
    indicated = header.startswith(f"|{_INDICATOR}")
    bare = text.rstrip("\n")
    if not bare or indicated is not _needs_indicator(text):
        raise NotOurs
    if header.endswith("+"):
        return text
    if text.endswith("\n\n"):
        raise NotOurs
    return bare if header.endswith("-") else f"{bare}\n"


decode_known_text: Final = lru_cache(maxsize=512)(decode_text)
"""Cached `decode_text`, for the few names of a session."""


@lru_cache(maxsize=512)
def decode_name(scalar: str) -> str:
    """Decode text that can't be null; raise `NotOurs` if it is written differently."""
    text = decode_text(scalar)
    if text is None:
        raise NotOurs
    return text


def is_plain(data: bytes, text: str) -> bool:
    """Return whether a file holds only characters that we write unescaped."""
    if len(data) == len(text):
        return not data.translate(None, _PLAIN_BYTES)
    return _is_printable(text)


# ------------------------------------------------------------------------------------ reading data

_MAX_INDENT: Final = 60
"""Deeper than data can be nested."""
_CACHED_CHARS: Final = 120
"""The longest line whose decoding is cached: the same names, words and counts recur."""
_LINE_RE: Final = re.compile(
    rf"( *+)(-(?: (?=.)|$))?(?:({NAME}):(?: (?=.)|$))?"
    r"(?:(0|-?[1-9][0-9]{0,399})|(-?[0-9]{1,400}\.[0-9]{1,400}(?:e[-+][0-9]{1,3})?)"
    rf"|({NAME})|(\|2?[-+]?)|(\[\]|\{{\}}))?"
)
_INT, _FLOAT, _TEXT, _BLOCK = range(4, 8)
"""The groups of `_LINE_RE` that can hold a value."""
_Line = tuple[int, bool, str | None, Any]
"""A line of data: its indentation, whether it starts a list item, its field name and its value."""
_NO_LINE: Final[_Line] = (-1, False, None, None)


class _Below(str):
    """Marks a value that starts on the next line; holds a literal block's header."""

    __slots__ = ()


_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "[]": (), "{}": {}}
_READERS: Final[Mapping[int, Callable[[str], Any]]] = {
    _INT: int,
    _FLOAT: float,
    _TEXT: decode_text,
    _BLOCK: _Below,
}


def _parse_line(line: str) -> _Line:
    found = _LINE_RE.fullmatch(line)
    if found is None:
        raise NotOurs
    margin, dash, name, *_ = found.groups()
    if dash is None and name is None:
        return _NO_LINE
    group = found.lastindex or 0
    value: Any = _Below()
    if group >= _INT:
        text = found[group]
        value = _WORDS[text] if text in _WORDS else _READERS[group](text)
    return len(margin), dash is not None, None if name is None else decode_name(name), value


_parse_short_line: Final = lru_cache(maxsize=1024)(_parse_line)


def _line(line: str) -> _Line:
    return _parse_short_line(line) if len(line) <= _CACHED_CHARS else _parse_line(line)


def decode_data(text: str, *, indent: int = _INDENT) -> dict[str, Any]:
    """Decode the lines below the field of some data.

    Args:
        text: The lines, as `encode_data` or `encode_own_data` wrote them.
        indent: The fields' indentation.

    Raises:
        NotOurs: They are not as we would write them.
    """
    lines = text.split("\n")  # the last one is empty, not data
    first = _line(lines[0])
    if first[0] != indent or first[1]:
        raise NotOurs
    data, end = _read_fields(lines, 0, indent, first)
    if end != len(lines) - 1:
        raise NotOurs
    return data


def _read_fields(
    lines: list[str], position: int, indent: int, line: _Line
) -> tuple[dict[str, Any], int]:
    """Decode a mapping; return it and the position of the line after it.

    Args:
        lines: All lines of the data.
        position: The position of the first field.
        indent: The fields' indentation.
        line: The first field's line; it may start a list item.
    """
    data: dict[str, Any] = {}
    while True:
        name, value = line[2], line[3]
        if name is None or name in data:
            raise NotOurs
        position += 1
        if type(value) is _Below:
            value, position = _read_below(lines, position, indent, value)
        data[name] = value
        text = lines[position]
        line = _parse_short_line(text) if len(text) <= _CACHED_CHARS else _parse_line(text)
        if line[0] != indent or line[1]:
            return data, position


def _read_items(
    lines: list[str], position: int, indent: int, line: _Line
) -> tuple[tuple[Any, ...], int]:
    items = []
    while True:
        value = line[3]
        if line[2] is not None:
            value, position = _read_fields(lines, position, indent + _STEP, line)
        else:
            position += 1
            if type(value) is _Below:
                value, position = _read_below(lines, position, indent, value)
        items.append(value)
        line = _line(lines[position])
        if line[0] != indent or not line[1]:
            return tuple(items), position


def _read_below(lines: list[str], position: int, indent: int, value: Any) -> tuple[Any, int]:
    """Decode a block, a list or a mapping that starts on the next line."""
    indent += _STEP
    if indent > _MAX_INDENT:
        raise NotOurs
    if not value:
        line = _line(lines[position])
        if line[0] != indent:
            raise NotOurs
        read = _read_items if line[1] else _read_fields
        return read(lines, position, indent, line)
    margin, end = " " * indent, position
    last = len(lines) - 1
    while end < last and (not lines[end] or lines[end].startswith(margin)):
        end += 1
    return decode_block("\n".join([value, *lines[position:end], ""]), margin), end


def indented(kept: str, margin: str) -> str:
    """Return YAML from a newer version, re-indented for its place in the output."""
    if not kept or not margin:
        return kept
    return "\n".join(f"{margin}{line}" if line else line for line in kept.split("\n"))
