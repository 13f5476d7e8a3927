"""The agent programs by name, and the cost of a conversation from the files that they write.

Each program's module is loaded when it is first requested.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Protocol, cast

from .hook_event import HookEvent, HookReply
from .meter import UsageMeter

_MODULES: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
}
PROGRAMS: Final = tuple(_MODULES)
"""The names of the supported programs."""
_WITH_FILES: Final = frozenset({"claude-code", "codex", "gemini"})
"""The programs whose files record usage; other programs report it in their events."""


class AgentProgram(Protocol):
    """The interface of a program's module."""

    NAME: str
    COMMAND: str
    TRIED: str
    MAX_CONTEXT_CHARS: int
    COMPACTED: bytes | None

    def event_of(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Parse a hook's input; None if the event is not handled."""

    def takes_context(self, event: HookEvent) -> bool:
        """Return whether the answer to an event may carry text for the model."""

    def answer_of(self, event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
        """Return the hook's output, or None for none."""


def find_program(name: str) -> AgentProgram | None:
    """Return a program by its name, or None if it is not supported."""
    module = _MODULES.get(name)
    return None if module is None else cast(AgentProgram, import_module(f".{module}", __package__))


class _ProgramFiles(Protocol):
    """The interface of the module of a program that writes files of its conversations."""

    def known_files(
        self, path: str, meter: UsageMeter, conversation: str | None = None
    ) -> list[str]:
        """Return the files of a conversation, from its own file and the meter.

        Given the program's id of the conversation, include files that have to be searched for.
        """

    def read(self, files: list[str], meter: UsageMeter) -> None:
        """Read what was added to the files since the last reading."""


def read_files(
    program: str,
    path: str,
    meter: UsageMeter,
    *,
    conversation: str,
    also: Sequence[str] = (),
    thoroughly: bool = False,
) -> None:
    """Read what a program wrote of a conversation since the last reading.

    Args:
        program: The program.
        path: The conversation's own file.
        meter: The known usage; updated.
        conversation: The program's id of it.
        also: Further files of it, such as a subagent's.
        thoroughly: Whether to search for files that no hook named.
    """
    files = _reader_of(program)
    if files is None:
        return
    found = [*files.known_files(path, meter, conversation if thoroughly else None), *also]
    files.read(list(dict.fromkeys(found)), meter)


def has_read_all(program: str, path: str | None, meter: UsageMeter) -> bool:
    """Return whether a conversation's files have the length they had at the last reading."""
    files = _reader_of(program)
    if path is None or files is None:
        return True
    return all(_size(one) == meter.offsets.get(one, -1) for one in files.known_files(path, meter))


def _reader_of(program: str) -> _ProgramFiles | None:
    return cast(_ProgramFiles, find_program(program)) if program in _WITH_FILES else None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return -1
