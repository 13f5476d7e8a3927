"""Gemini CLI's files of a conversation: one of its own, and one for each subagent."""

from __future__ import annotations

import os
from typing import Final

from .meter import Meter, count_of, names_in, read_new_lines, str_of

_MAX_FILES: Final = 1000
_SHORT_ID: Final = 8


def read(files: list[str], meter: Meter) -> None:
    """Read what Gemini CLI wrote of the conversation and its subagents since the last reading.

    A message is written again, with the same id, after its tools have run.
    """
    for name in files:
        for entry in read_new_lines(name, meter, (b'"tokens"',)):
            tokens, key = entry.get("tokens"), entry.get("id")
            if entry.get("type") == "gemini" and isinstance(tokens, dict) and isinstance(key, str):
                meter.report(key, count_of(tokens.get("total")), str_of(entry.get("model")))


def known_files(path: str, _meter: Meter, _conversation: str | None = None) -> list[str]:
    """Return the files of a conversation: its subagents' first, then its own.

    Its own files are named by the beginning of its id, the folder of its subagents by the full id.
    When a conversation is resumed, the program first names a new file but then writes to the old
    one.
    """
    chats, name = os.path.split(path)
    short = name.removesuffix(".jsonl").rpartition("-")[2]
    inside, own = [], [path]
    for one in names_in(chats) if len(short) == _SHORT_ID else []:
        if one.startswith(short):
            folder = os.path.join(chats, one)
            inside += [os.path.join(folder, file) for file in names_in(folder)]
        elif one.endswith(f"-{short}.jsonl") and one != name:
            own.append(os.path.join(chats, one))
    return [*[one for one in inside if one.endswith(".jsonl")][:_MAX_FILES], *own[:_MAX_FILES]]
