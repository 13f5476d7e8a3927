"""Strict TOML: tables whose keys are taken one by one, and all faults at once, with their lines."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

_WORD: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED: Final = rf"{_WORD}(?:[ \t]*\.[ \t]*{_WORD})*"
_HEADER: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_KEY: Final = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
_DEEP: Final = re.compile(r"""(?:\.[ \t]*+(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+){33}""")
_MULTILINE: Final = re.compile(r'"""|' + "'''")
_AT: Final = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class TomlFaults:
    """What is wrong with a document, each fault with the line of its key where that is found."""

    def __init__(self, lines: Mapping[str, int] | None = None) -> None:
        self._lines = lines or {}
        self._found: list[tuple[int, str]] = []

    def add(self, key: str, problem: str) -> None:
        """Add a fault of a key, named with its tables, as `context.files`."""
        line, shorter = 0, key
        while shorter and not line:
            line = self._lines.get(shorter, 0)
            shorter = shorter.rpartition("[" if shorter.endswith("]") else ".")[0]
        self.add_at(line, f"{key}: {problem}")

    def add_at(self, line: int, text: str) -> None:
        """Add a fault of a line, from 1; 0 where the line is not known."""
        self._found.append((line, f"line {line}: {text}" if line else text))

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> list[str]:
        """Return the faults in the order of the document."""
        return [text for _, text in sorted(self._found, key=lambda fault: fault[0])]


def parse_toml(data: bytes) -> tuple[dict[str, Any], TomlFaults]:
    """Read a document; where it is no TOML in UTF-8, it is empty and has that fault."""
    faults = TomlFaults()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.add_at(data[: error.start].count(b"\n") + 1, "it is no TOML: a byte is not UTF-8")
        return {}, faults
    if _DEEP.search(text):  # the parser takes hours for a key of thousands of parts
        faults.add_at(0, "it is no TOML: it is nested too deep")
        return {}, faults
    try:
        return tomllib.loads(text), TomlFaults(_key_lines(text))
    except RecursionError:
        faults.add_at(0, "it is no TOML: it is nested too deep")
    except ValueError as error:
        message = str(error)
        at = _AT.search(message)
        line = int(at[1]) if at is not None and at[1] else 0
        faults.add_at(line, f"it is no TOML: {_AT.sub('', message)}")
    return {}, faults


def _key_lines(text: str) -> dict[str, int]:
    """Return where keys and tables stand first; a table in one line is found by its own key."""
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


class TomlTable:
    """The keys of one table, taken by name; what is left over at the end is a fault."""

    def __init__(self, values: Mapping[str, Any], where: str, faults: TomlFaults) -> None:
        self._values = values
        self._where = where
        self._faults = faults
        self._known: list[str] = []

    def fault(self, key: str, problem: str) -> None:
        """Add a fault of a key."""
        self._faults.add(f"{self._where}.{key}" if self._where else key, problem)

    def take(self, key: str) -> Any:
        """Return a value as it is, or None."""
        self._known.append(key)
        return self._values.get(key)

    def table(self, key: str) -> TomlTable:
        """Return a table in this one; an empty one where it is not there or is none."""
        value = self.take(key)
        if value is not None and not isinstance(value, dict):
            self.fault(key, f"expected a table [{key}], found {describe(value)}")
            value = None
        return TomlTable(value or {}, f"{self._where}.{key}" if self._where else key, self._faults)

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables of a list, as `[[key]]` writes them."""
        value = self.take(key)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(one, dict) for one in value)
        ):
            self.fault(key, f"expected tables [[{key}]], found {describe(value)}")
            return []
        where = f"{self._where}.{key}" if self._where else key
        return [
            TomlTable(one, f"{where}[{index}]", self._faults)
            for index, one in enumerate(value or ())
        ]

    def text(self, key: str) -> str | None:
        """Return a text that is not blank, or None."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(key, f"expected text, found {describe(value)}")
        elif not value.strip():
            self.fault(key, "is empty")
        elif "\0" in value:
            self.fault(key, "holds a NUL character")
        else:
            return value
        return None

    def texts(
        self, key: str, judge: Callable[[str], str | None] = lambda _: None
    ) -> tuple[str, ...]:
        """Return a list of texts that are not blank; an empty one where it is not there.

        Args:
            key: The key.
            judge: Returns what is wrong with one of them, or None.
        """
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fault(key, f"expected a list of texts, found {describe(value)}")
            return ()
        kept = []
        for index, one in enumerate(value):
            if not isinstance(one, str):
                problem: str | None = f"expected text, found {describe(one)}"
            elif not one.strip():
                problem = "is empty"
            else:
                problem = "holds a NUL character" if "\0" in one else judge(one)
            if problem is None:
                kept.append(one)
            else:
                self.fault(f"{key}[{index}]", problem)
        return tuple(kept)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(key, f"expected true or false, found {describe(value)}")
            return default
        return value

    def whole(self, key: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number between two others."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(key, f"expected a whole number, found {describe(value)}")
        elif not least <= value <= most:
            self.fault(key, f"expected {least:,} to {most:,}, found {value:,}")
        else:
            return value
        return default

    def number(self, key: str, *, above: float, most: float) -> float | None:
        """Return a number above one and up to another, or None."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(key, f"expected a number, found {describe(value)}")
        elif not above < value <= most:  # also what is no number, nan
            self.fault(key, f"expected more than {above:g}, up to {most:g}, found {value}")
        else:
            return float(value)
        return None

    def one_of(self, key: str, words: Collection[str], default: str) -> str:
        """Return one of a closed set of words."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in words:
            given = value if isinstance(value, str) else describe(value)
            self.fault(key, f"expected {' or '.join(map(repr, words))}, found {given!r}")
            return default
        return value

    def done(self) -> None:
        """Make a fault of each key that was not taken, with the nearest one that there is."""
        for key in self.unknown():
            self.fault(key, f"there is no such key; {meant(key, self._known)}")

    def rest(self) -> dict[str, Any]:
        """Return what was not taken, which somebody else judges."""
        return {key: self._values[key] for key in self.unknown()}

    def unknown(self) -> Iterator[str]:
        """Return the keys that were not taken."""
        return (key for key in self._values if key not in self._known)


def meant(name: str, known: Collection[str]) -> str:
    """Return a hint at the known name that an unknown one is nearest to, or at all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"


def describe(value: object) -> str:
    """Name a value of the wrong type, shortened."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        text = "a very long number"
    return text if len(text) <= 60 else f"{text[:57]}..."
