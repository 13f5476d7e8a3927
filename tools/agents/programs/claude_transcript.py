"""Claude Code's transcript of a conversation: one file of its own, and one for each subagent."""

from __future__ import annotations

import os
from typing import Any, Final

from .meter import Meter, count_of, names_in, read_new_lines

_MAX_FILES: Final = 1000


def read(files: list[str], meter: Meter) -> None:
    """Read what Claude Code wrote of the conversation and its subagents since the last reading.

    A message is repeated, with the same id, for every block of its content. Usage that belongs to
    no message, such as a compaction's, is in the total that the program writes when it ends.
    """
    for name in files:
        for entry in read_new_lines(name, meter, (b'"usage"', b'"cost-state"')):
            if entry.get("type") == "cost-state":
                _take_cost_state(entry, meter)
                continue
            message = entry.get("message")
            if entry.get("type") != "assistant" or not isinstance(message, dict):
                continue
            usage, key = message.get("usage"), message.get("id")
            if isinstance(usage, dict) and isinstance(key, str):
                meter.report(key, _claude_tokens(usage), str(message.get("model") or ""))


def known_files(path: str, _meter: Meter, _conversation: str | None = None) -> list[str]:
    """Return the files of a conversation: its subagents' first, then its own."""
    return [*_subagents(path), path]


def _subagents(path: str) -> list[str]:
    folder = os.path.join(path.removesuffix(".jsonl"), "subagents")
    names = [one for one in names_in(folder) if one.endswith(".jsonl")]
    return [os.path.join(folder, one) for one in names][:_MAX_FILES]


def _claude_tokens(usage: dict[str, Any]) -> int:
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(count_of(usage.get(kind)) for kind in (*kinds, "output_tokens"))


def _take_cost_state(entry: dict[str, Any], meter: Meter) -> None:
    kinds = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    models = entry.get("modelUsage")
    if not isinstance(models, dict):
        return
    totals = {
        str(name): sum(count_of(one.get(kind)) for kind in kinds)
        for name, one in models.items()
        if isinstance(one, dict)
    }
    if totals:
        meter.reach(sum(totals.values()), max(totals, key=lambda name: totals[name]))
