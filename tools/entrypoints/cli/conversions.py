"""Skip the conversion of option values that need none.

typer converts each value with pydantic, which takes as long to load as typer itself. Most options
are not given at all, and most given values are plain text, a number or a path. typer still converts
every value whose result is not certain, and makes all refusals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand

_CONVERSION: Final = "_runtime_param"
"""Attribute of a typer parameter that holds its conversion; None until first needed.

The name is private to typer: in a version without it, typer converts every value.
"""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_CHECKS: Final = (
    *(("exists", False), ("writable", False), ("resolve_path", False)),
    *(("path_type", None), ("file_okay", True), ("dir_okay", True)),
)
"""Default settings of typer's path checks, apart from readability."""
_UNSURE: Final = object()


class SparingCommand(TyperCommand):
    """Command that converts only the values that need it."""

    def get_params(self, ctx: Any) -> Any:
        """Return the command's options, with `--help`."""
        found = super().get_params(ctx)
        spare_conversions(found)
        return found


def spare_conversions(parameters: Iterable[Any]) -> None:
    """Make parameters load their conversion only for values whose result is not certain."""
    for one in parameters:
        if getattr(one, _CONVERSION, one) is None and hasattr(one, "get_runtime_param"):
            setattr(one, _CONVERSION, _Sparing())


class _Sparing:
    """Placeholder of a parameter's conversion until a value needs it."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return the value converted to the parameter's type."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        plain = _UNSURE if several else _plain(value, param.type_descriptor)
        if plain is not _UNSURE:
            return plain
        setattr(param, _CONVERSION, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _plain(value: Any, wanted: Any) -> Any:
    """Return the converted value, or `_UNSURE` if the result is not certain."""
    kind, info = wanted.annotation, wanted.parameter_info
    if info.parser is not None:
        return _UNSURE
    if kind is int and type(value) is int:  # a default: typed values are text
        return value
    if kind is Path:
        return _plain_path(os.fspath(value), info)
    if not _is_plain(value):
        return _UNSURE
    return value if kind is str else _plain_number(value, info) if kind is int else _UNSURE


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()


def _plain_number(text: str, info: Any) -> Any:
    if _NUMBER.fullmatch(text) is None:
        return _UNSURE
    number = int(text)
    fits = (info.min is None or info.min <= number) and (info.max is None or number <= info.max)
    return number if fits else _UNSURE


def _plain_path(text: str, info: Any) -> Any:
    if not text or not _is_plain(text) or any(getattr(info, one) != ok for one, ok in _CHECKS):
        return _UNSURE
    return Path(text) if os.access(text, os.R_OK) or not os.path.lexists(text) else _UNSURE
