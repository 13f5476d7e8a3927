"""Sections of a configuration whose keys are the fields of a class, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from attrs import field, fields

from ..reading.fields import Fields, Judge

READ: Final = "read"
"""The metadata key for a field's reader, which gets the section's table and the root of paths."""


def _key(read: Callable[[Fields, str, Path], object], default: object = None, **more: Any) -> Any:
    """Declare a key of a section, with its default and its reader."""
    return field(default=default, metadata={READ: read}, **more)


def text(judge: Judge | None = None, default: str | None = None, **more: Any) -> Any:
    """Declare a text that passes a judge."""
    return _key(lambda table, key, _: table.text(key, judge=judge) or default, default, **more)


def texts(judge: Judge | None = None, default: tuple[str, ...] = (), **more: Any) -> Any:
    """Declare a list of texts that pass a judge."""

    def read(table: Fields, key: str, _: Path) -> tuple[str, ...]:
        found = table.texts(key, judge=judge)
        return found if table.has(key) else default

    return _key(read, default, **more)


def one_of(words: Collection[str], default: str | None = None) -> Any:
    """Declare one of a set of words."""
    return _key(lambda table, key, _: table.one_of(key, words, default), default)


def flag(*, default: bool = False) -> Any:
    """Declare a boolean."""
    return _key(lambda table, key, _: table.flag(key, default=default), default)


def number(default: float | None = None, *, most: float) -> Any:
    """Declare a number above 0."""

    def read(table: Fields, key: str, _: Path) -> float | None:
        found = table.number(key, above=0, most=most)
        return default if found is None else found

    return _key(read, default)


def whole(default: int | None, *, least: int, most: int) -> Any:
    """Declare a whole number."""
    return _key(lambda table, key, _: table.whole(key, default, least=least, most=most), default)


def path(table: Fields, key: str, root: Path) -> Path | None:
    """Read a path; None if the key is missing."""
    named = table.text(key)
    return None if named is None else root / named


def path_or_root(table: Fields, key: str, root: Path) -> Path:
    """Read a path; the root of paths if the key is missing."""
    return path(table, key, root) or root


def paths() -> Any:
    """Declare a list of paths."""
    return _key(lambda table, key, root: tuple(root / one for one in table.texts(key)), ())


def no_name(value: str) -> str | None:
    """Judge the name of an environment variable."""
    return f"{value[:60]!r} is no name; values are not taken" if "=" in value else None


def section_of(top: Fields, name: str) -> Fields:
    """Take the table of a section."""
    return top.inner(name, expected=f"a table [{name}]")


def read_keys(kind: Any, table: Fields, root: Path) -> Any:
    """Read a table into the fields of a class; its faults go to the table's."""
    found = {one.name: one.metadata[READ](table, one.name, root) for one in fields(kind)}
    table.done()
    return kind(**found)
