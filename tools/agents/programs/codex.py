"""Codex: parse its hook input and format the answers; pure.

Codex calls hooks as Claude Code does, with the same fields (version 0.169). A hook can't stop it:
when a tool is denied, the model goes on; so the next prompt is refused instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from . import claude_code
from .hook_event import HookEvent, HookReply, Moment, text_of

NAME: Final = "codex"
COMMAND: Final = "codex"
TRIED: Final = "0.169.0"
"""The version that the tests with the real program run."""
MAX_CONTEXT_CHARS: Final = 7_000
"""From 2,500 tokens on, the program cuts out the middle of a text."""
EVENTS: Final = claude_code.EVENTS
"""The events to register the hook for."""
takes_context: Final = claude_code.takes_context


def event_of(payload: Mapping[str, Any]) -> HookEvent | None:
    """Parse a hook's input; None if the event is not handled."""
    event = claude_code.event_of(payload, NAME)
    if event is None or event.moment is not Moment.AFTER_TOOL:
        return event
    return event._replace(edited=_edited(payload))


def _edited(payload: Mapping[str, Any]) -> tuple[tuple[str, bool], ...]:
    """Return the files in the program's patches; files that commands write are not reported."""
    given = payload.get("tool_input")
    if payload.get("tool_name") != "apply_patch" or not isinstance(given, Mapping):
        return ()
    found = []
    for line in text_of(given, "command", "input", "patch").splitlines():
        for mark, made in (("*** Add File: ", True), ("*** Update File: ", False)):
            if line.startswith(mark):
                found.append((line.removeprefix(mark).strip(), made))
    return tuple(found)


def answer_of(event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
    """Return the hook's output, or None for none."""
    if reply.stop is not None and event.moment is Moment.BEFORE_TOOL:
        return claude_code.denied(event, reply.stop)
    if reply.stop is not None and event.moment is Moment.AFTER_TOOL:
        return {"decision": "block", "reason": reply.stop}
    return claude_code.answer_of(event, reply)
