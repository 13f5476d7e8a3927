"""The agent programs by name; each module is loaded when its program is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Protocol, cast

from .hook_event import HookEvent, HookReply


class AgentProgram(Protocol):
    """What the module of a program has."""

    NAME: str
    COMMAND: str
    TRIED: str
    MAX_CONTEXT_CHARS: int

    def event_of(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what a hook's input is about, or None if it is of no concern."""

    def takes_context(self, event: HookEvent) -> bool:
        """Return whether the answer to an event may have text for the model."""

    def answer_of(self, event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
        """Return the hook's output, or None for none."""


_MODULES: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
}
PROGRAMS: Final = tuple(_MODULES)
"""The names of the programs whose hooks are understood."""


def find_program(name: str) -> AgentProgram | None:
    """Return a program by its name, or None if there is none of it."""
    module = _MODULES.get(name)
    return None if module is None else cast(AgentProgram, import_module(f".{module}", __package__))
