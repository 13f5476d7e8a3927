"""How a session's file is spelled: its frame, and the one form of every text and time in it.

What is written is plain block YAML 1.1 that any YAML library reads to the same values. Each value
has one form only, so that what we wrote ourselves can be read back without a YAML parser.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final

SCHEMA_VERSION: Final = 1
"""The major version of the form; a file of a newer minor one (`"1.2"`) is read, and kept so."""
END_MARK: Final = b"...\n"

HEADER: Final = "# A session of AgentForge Harness. Its fields: docs/session-format.md\n"

# ------------------------------------------------------------------------------------- writing

# Quantifiers of what may be long are possessive: `re` keeps a state of 100 bytes for every turn of
# a group that it could take back.
PLAIN: Final = r"[A-Za-z_][A-Za-z0-9_./()+=]*+(?:[ -]++[A-Za-z0-9_./()+=]++)*+"
_PLAIN_RE: Final = re.compile(PLAIN)
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "_"})
"""What YAML 1.1 or 1.2, or some reader of them, takes for something other than text."""

# What a double-quoted or literal scalar may hold as it is: YAML's printable characters less the
# line breaks of YAML 1.1, the byte order mark and the marks that reorder text on a screen.
_RAW: Final = (
    "\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0001fffd\U00020000-\U0010fffd"
)
_ESCAPED_RE: Final = re.compile(f'["\\\\]|[^{_RAW}]')
UNPRINTABLE_RE: Final = re.compile(f"[^\n\t{_RAW}]")
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
"""By how much a literal block is indented more than the field that it is the value of."""
_LONG_BLANKS_RE: Final = re.compile(r"(?m)^[ \t]+$")


def _has_line_of_blanks(text: str) -> bool:
    """Tell whether a line holds blanks and nothing else, soon even of a million empty lines."""
    possible = " \n" in text or "\t\n" in text or text.endswith((" ", "\t"))
    return possible and _LONG_BLANKS_RE.search(text) is not None


def _needs_indicator(text: str) -> bool:
    """Return whether a block must say how far it is indented, for a reader can't see it."""
    return text[0] in " \t\n" or _has_line_of_blanks(text)


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
    """Write one text value: plain where that can't be misread, else literal, else quoted.

    Args:
        text: The value; None becomes null.
        indent: How far the lines of a literal block are indented: two more than its field.
    """
    if text is None:
        return "null"
    plain = _PLAIN_RE.fullmatch(text)
    if plain is not None and text.lower() not in _RESERVED:
        return plain[0]  # and not `text`, which may be of a subclass that formats differently
    body = text.rstrip("\n")
    if "\n" in text and body and not UNPRINTABLE_RE.search(text):
        newlines = len(text) - len(body)
        chomp = ("-", "", "+")[min(newlines, 2)]
        indicator = _INDICATOR if _needs_indicator(text) else ""
        margin = " " * indent
        lines = "\n".join(f"{margin}{line}" if line else "" for line in body.split("\n"))
        return f"|{indicator}{chomp}\n{lines}{chr(10) * max(newlines - 1, 0)}"
    return f'"{_ESCAPED_RE.sub(_escape, text)}"'


def encode_key(name: str) -> str:
    """Write a field's name: plain where that can't be misread, else quoted."""
    if _PLAIN_RE.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return f'"{_ESCAPED_RE.sub(_escape, name)}"'


encode_name: Final = lru_cache(maxsize=512)(encode_text)
"""As `encode_text`, remembered: the few names of a session are written at every save."""


def encode_time(moment: datetime | None) -> str:
    """Write a time: ISO 8601, to the microsecond, with its offset, quoted; None becomes null."""
    return "null" if moment is None else f'"{moment.isoformat(timespec="microseconds")}"'


encode_recent_time: Final = lru_cache(maxsize=64)(encode_time)
"""As `encode_time`, remembered, of times in UTC: a save writes most of them once more."""


# ------------------------------------------------------------------ reading what we wrote ourselves

NAME = f'(?:{PLAIN}|"[^"\\\\\n]*+(?:\\\\.[^"\\\\\n]*+)*+")'
BLOCK = r"\|2?[-+]?\n(?:%s[^\n]*+\n|\n++)++"
TIME = r'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00"'
COUNT = r"(?:0|[1-9][0-9]{0,18})"
_UNESCAPE_RE: Final = re.compile(
    r'\\(?:(["\\ntr0e])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))'
)
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
    """Read a plain or quoted text, or null, back; `NotOurs` if it is spelled otherwise."""
    if scalar[0] == '"':
        inner = scalar[1:-1]
        return _UNESCAPE_RE.sub(_unescape, inner) if "\\" in inner else inner
    if scalar == "null":
        return None
    if scalar.lower() in _RESERVED:
        raise NotOurs
    return scalar


def decode_block(scalar: str, margin: str) -> str:
    """Read a literal block back; `NotOurs` if it is spelled otherwise."""
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


def decode_name(scalar: str) -> str:
    """Read a text that can't be null back; `NotOurs` if it is spelled otherwise."""
    text = decode_text(scalar)
    if text is None:
        raise NotOurs
    return text


def decode_time(scalar: str) -> datetime | None:
    """Read a time, or null, back."""
    return None if scalar == "null" else datetime.fromisoformat(scalar[1:-1])


def is_plain(data: bytes, text: str) -> bool:
    """Tell whether the file holds only characters that we write as they are."""
    if len(data) == len(text):
        return not data.translate(None, _PLAIN_BYTES)
    return not UNPRINTABLE_RE.search(text)
