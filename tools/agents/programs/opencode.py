"""opencode: parse its plugin's input and format the answers; pure.

opencode can't call commands as hooks; our plugin (`agents/setup/opencode`) calls the hook with the
events of version 1.18 and carries out the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .hook_event import HookEvent, HookReply, Moment, ReportedUsage, begun_event, text_of
from .meter import count_of, micro_usd_of
from .tokens import Tokens, split

NAME: Final = "opencode"
COMMAND: Final = "opencode"
TRIED: Final = "1.18.33"
"""The version that the tests with the real program run."""
MAX_CONTEXT_CHARS: Final = 9_000
"""The program sets no limit."""
COMPACTED: Final = None
"""A restarted conversation lacks the earlier briefing."""

_MOMENTS: Final = {
    "session.started": Moment.STARTED,
    "chat.message": Moment.PROMPTED,
    "message.updated": Moment.MODEL_ANSWERED,
    "tool.execute.after": Moment.AFTER_TOOL,
    "session.compacting": Moment.BEFORE_COMPACTION,
    "session.compacted": Moment.COMPACTED,
    "session.idle": Moment.TURN_ENDED,
}
_MAX_ITEMS: Final = 1_000


def event_of(payload: Mapping[str, Any]) -> HookEvent | None:
    """Parse the plugin's input; None if the event is not handled."""
    event = begun_event(NAME, payload, _MOMENTS)
    if event is None:
        return None
    moment = event.moment
    return event._replace(
        text=text_of(payload, "text"),
        by_person=payload.get("by_person") is not False,
        edited=tuple(_edited(payload)) if moment is Moment.AFTER_TOOL else (),
        usage=tuple(_usage(payload)),
        parts=tuple(_objects(payload, "parts")),
    )


def _edited(payload: Mapping[str, Any]) -> list[tuple[str, bool]]:
    return [
        (path, one.get("created") is True)
        for one in _objects(payload, "files")
        if (path := text_of(one, "path"))
    ]


def _usage(payload: Mapping[str, Any]) -> list[ReportedUsage]:
    found = []
    for one in _objects(payload, "usage"):
        key, given = text_of(one, "id"), one.get("tokens")
        if not key or not isinstance(given, Mapping):
            continue
        _, *kinds = (count_of(given.get(name)) for name in Tokens._fields)
        tokens = split(count_of(given.get("total")), Tokens(0, *kinds))
        if tokens.total:
            cost, model = micro_usd_of(one.get("cost")), text_of(one, "model")[:200]
            found.append(ReportedUsage(key[:200], tokens, model, cost, text_of(one, "at")[:40]))
    return found


def _objects(payload: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    given = payload.get(name)
    items = given[:_MAX_ITEMS] if isinstance(given, list) else []
    return [one for one in items if isinstance(one, Mapping)]


def takes_context(event: HookEvent) -> bool:
    """Return whether the answer to an event may carry text for the model."""
    return event.moment is not Moment.BEFORE_COMPACTION and event.moment is not Moment.COMPACTED


def answer_of(event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
    """Return the hook's output, which the plugin reads."""
    given = {
        "context": reply.context if takes_context(event) else None,
        "stop": reply.stop,
        "refuse": reply.refuse,
        "goOn": reply.go_on,
    }
    return {name: text for name, text in given.items() if text is not None} or None
