"""What a conversation cost so far, from the files in which an agent program keeps it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from .meter import Meter


class _Files(Protocol):
    """What the module of a program's files has."""

    def known_files(self, path: str, meter: Meter, conversation: str | None = None) -> list[str]:
        """Return the files of a conversation, by its own one and what is known of it.

        With the program's id of the conversation also those that have to be looked for.
        """

    def read(self, files: list[str], meter: Meter) -> None:
        """Take what was added to some files since the last time."""


_MODULES: Final = {
    "claude-code": "claude_transcript",
    "codex": "codex_rollout",
    "gemini": "gemini_chats",
}
"""How each program's files are read; others report their usage with their events."""


def read_files(
    program: str,
    path: str,
    meter: Meter,
    *,
    conversation: str,
    also: Sequence[str] = (),
    thoroughly: bool = False,
) -> None:
    """Take what a program wrote of a conversation since the last time.

    Args:
        program: The program.
        path: The conversation's own file.
        meter: What is known of it.
        conversation: The program's id of it.
        also: Further files of it, such as a subagent's.
        thoroughly: Whether to look for files that no hook named.
    """
    files = _files_of(program)
    if files is None:
        return
    found = [*files.known_files(path, meter, conversation if thoroughly else None), *also]
    files.read(list(dict.fromkeys(found)), meter)


def has_read_all(program: str, path: str | None, meter: Meter) -> bool:
    """Return whether a conversation's files are as long as they were when they were read last."""
    files = _files_of(program)
    if path is None or files is None:
        return True
    return all(_size(one) == meter.offsets.get(one, -1) for one in files.known_files(path, meter))


def _files_of(program: str) -> _Files | None:
    module = _MODULES.get(program)
    return None if module is None else cast(_Files, import_module(f".{module}", __package__))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return -1
