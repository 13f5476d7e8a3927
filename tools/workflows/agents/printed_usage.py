"""What a call cost, as programs print it at their end; pure.

Read are a JSON object with `usage` (`claude -p --output-format json`, also as the last line of a
stream of them, and `codex exec --json`), and the line by which aider tells tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from .port import TokenUsage

_LINES: Final = 200
_AIDER: Final = re.compile(
    r"^(?:> ?)?Tokens: (?P<sent>[\d.,]+)(?P<sent_unit>[kM]?) sent"
    r"(?:, [\d.,]+[kM]? cache \w+)*"
    r", (?P<received>[\d.,]+)(?P<received_unit>[kM]?) received",
)
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def printed_usage(text: str) -> TokenUsage | None:
    """Return the usage that a program printed last, or None."""
    whole = _of_json(text.strip())
    if whole is not None:
        return whole
    sent = received = 0
    for line in reversed(text.splitlines()[-_LINES:]):
        found = _of_json(line.strip()) if line.lstrip().startswith("{") else None
        if found is not None:
            return found
        told = _AIDER.match(line)
        if told is not None:
            sent += _count(told["sent"], told["sent_unit"])
            received += _count(told["received"], told["received_unit"])
    return _usage(sent, received) if sent or received else None


def _of_json(text: str) -> TokenUsage | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    usage = value.get("usage") if isinstance(value, Mapping) else None
    if not isinstance(usage, Mapping) or "input_tokens" not in usage:
        return None
    counts: list[Any] = [usage.get(name, 0) for name in _INPUT]
    output = usage.get("output_tokens", 0)
    if any(isinstance(one, bool) or not isinstance(one, int) for one in [*counts, output]):
        return None
    return _usage(sum(counts), output)


def _usage(sent: int, received: int) -> TokenUsage | None:
    try:
        return TokenUsage(input_tokens=sent, output_tokens=received)
    except ValueError:
        return None


def _count(number: str, unit: str) -> int:
    try:
        return round(float(number.replace(",", "")) * _UNITS[unit])
    except ValueError:
        return 0
