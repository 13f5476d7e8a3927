"""The agent programs by name; each module is loaded when it is first requested."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Protocol, cast

from .hook_event import HookEvent, HookReply


class AgentProgram(Protocol):
    """The interface of a program's module."""

    NAME: str
    COMMAND: str
    TRIED: str
    MAX_CONTEXT_CHARS: int

    def event_of(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Parse a hook's input; None if the event is not handled."""

    def takes_context(self, event: HookEvent) -> bool:
        """Return whether the answer to an event may carry text for the model."""

    def answer_of(self, event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
        """Return the hook's output, or None for none."""


_MODULES: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
}
PROGRAMS: Final = tuple(_MODULES)
"""The names of the supported programs."""


def find_program(name: str) -> AgentProgram | None:
    """Return a program by its name, or None if it is not supported."""
    module = _MODULES.get(name)
    return None if module is None else cast(AgentProgram, import_module(f".{module}", __package__))
