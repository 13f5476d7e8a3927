"""TOML as plain values, with the lines of its keys."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from .nodes import Faults

_WORD: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED: Final = rf"{_WORD}(?:[ \t]*\.[ \t]*{_WORD})*"
_HEADER: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_KEY: Final = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
_DEEP: Final = re.compile(r"""(?:\.[ \t]*+(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+){33}""")
_MULTILINE: Final = re.compile(r'"""|' + "'''")
_AT: Final = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


def parse_toml(data: bytes) -> tuple[dict[str, Any], Faults]:
    """Parse a document; one that is not TOML in UTF-8 yields an empty mapping and that fault."""
    faults = Faults()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        faults.add("", "it is no TOML: a byte is not UTF-8", line)
        return {}, faults
    if _DEEP.search(text):  # the parser takes hours for a key of thousands of parts
        faults.add("", "it is no TOML: it is nested too deep")
        return {}, faults
    try:
        return tomllib.loads(text), Faults(_key_lines(text))
    except RecursionError:
        faults.add("", "it is no TOML: it is nested too deep")
    except ValueError as error:
        message = str(error)
        at = _AT.search(message)
        line = int(at[1]) if at is not None and at[1] else 0
        faults.add("", f"it is no TOML: {_AT.sub('', message)}", line)
    return {}, faults


def _key_lines(text: str) -> dict[str, int]:
    """Return the first line of each key and table; an inline table is found by its own key."""
    found: dict[str, int] = {}
    counted: dict[str, int] = {}
    table = ""
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        begun_inside = inside is not None
        for mark in _MULTILINE.findall(line):
            if inside is None:
                inside = mark
            elif inside == mark:
                inside = None
        if begun_inside:
            continue
        header = _HEADER.match(line)
        if header is not None:
            table = _plain(header[2])
            found.setdefault(table, number)
            if header[1] == "[[":
                counted[table] = counted.get(table, -1) + 1
                table = f"{table}[{counted[table]}]"
                found[table] = number
            continue
        key = _KEY.match(line)
        if key is not None:
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_WORD, dotted))
