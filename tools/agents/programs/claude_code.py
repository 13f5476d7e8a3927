"""Claude Code: parse its hook input and format the answers; pure.

The events and fields are those that version 2.1 sends ("Hooks reference",
code.claude.com/docs/en/hooks).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from .hook_event import HookEvent, HookReply, Moment, begun_event, text_of
from .meter import UsageMeter, count_of, micro_usd_of, names_in, read_new_lines, str_of
from .tokens import Tokens

NAME: Final = "claude-code"
COMMAND: Final = "claude"
TRIED: Final = "2.1.330"
"""The version that the tests with the real program run."""
MAX_CONTEXT_CHARS: Final = 9_000
"""From 10,000 characters on, the program shows the model a file name and the text's beginning."""
COMPACTED: Final = b'"subtype":"compact_boundary"'
"""What its file has where the context was compacted; what is before that is not sent again."""

_MOMENTS: Final = {
    "SessionStart": Moment.STARTED,
    "UserPromptSubmit": Moment.PROMPTED,
    "PreToolUse": Moment.BEFORE_TOOL,
    "PostToolUse": Moment.AFTER_TOOL,
    "PreCompact": Moment.BEFORE_COMPACTION,
    "PostCompact": Moment.COMPACTED,
    "SubagentStop": Moment.SUBAGENT_ENDED,
    "Stop": Moment.TURN_ENDED,
    "SessionEnd": Moment.ENDED,
}
EVENTS: Final = tuple(_MOMENTS)
"""The events to register the hook for."""
_TEXTS: Final = {
    Moment.PROMPTED: "prompt",
    Moment.COMPACTED: "compact_summary",
    Moment.TURN_ENDED: "last_assistant_message",
}
_TAKES_CONTEXT: Final = frozenset({"SessionStart", "UserPromptSubmit", "PostToolUse"})
_NOTICE: Final = "<task-notification>"
"""The beginning of a prompt with which the program reports the end of a task to the model."""
_MAX_FILES: Final = 1000


def event_of(payload: Mapping[str, Any], program: str = NAME) -> HookEvent | None:
    """Parse a hook's input; None if the event is not handled.

    Args:
        payload: The input.
        program: The program's name; Codex sends the same form.
    """
    event = begun_event(program, payload, _MOMENTS)
    if event is None:
        return None
    moment = event.moment
    text = text_of(payload, _TEXTS[moment]) if moment in _TEXTS else ""
    by_subagent = bool(text_of(payload, "agent_id")) and moment is not Moment.SUBAGENT_ENDED
    return event._replace(
        text=text,
        by_subagent=by_subagent,
        by_person=not by_subagent and not text.lstrip().startswith(_NOTICE),
        edited=_edited(payload) if moment is Moment.AFTER_TOOL else (),
    )


def _edited(payload: Mapping[str, Any]) -> tuple[tuple[str, bool], ...]:
    given, answer = payload.get("tool_input"), payload.get("tool_response")
    if payload.get("tool_name") not in {"Write", "Edit", "MultiEdit", "NotebookEdit"}:
        return ()
    if not isinstance(given, Mapping):
        return ()
    path = text_of(given, "file_path", "notebook_path")
    made = isinstance(answer, Mapping) and answer.get("type") == "create"
    return ((path, made),) if path else ()


def takes_context(event: HookEvent) -> bool:
    """Return whether the answer to an event may carry text for the model."""
    return event.name in _TAKES_CONTEXT


def answer_of(event: HookEvent, reply: HookReply) -> dict[str, Any] | None:
    """Return the hook's output, or None for none."""
    if reply.refuse is not None and event.moment is Moment.PROMPTED:
        return {"decision": "block", "reason": reply.refuse}
    if reply.go_on is not None and event.moment is Moment.TURN_ENDED:
        return {"decision": "block", "reason": reply.go_on}
    if reply.stop is not None:
        return _stop(event, reply.stop)
    if reply.context is not None and takes_context(event):
        given = {"hookEventName": event.name, "additionalContext": reply.context}
        return {"hookSpecificOutput": given}
    return None


def _stop(event: HookEvent, reason: str) -> dict[str, Any] | None:
    if event.moment not in {Moment.BEFORE_TOOL, Moment.AFTER_TOOL}:
        return None
    answer = {"continue": False, "stopReason": reason}
    return answer | (denied(event, reason) if event.moment is Moment.BEFORE_TOOL else {})


def denied(event: HookEvent, reason: str) -> dict[str, Any]:
    """Return the output that denies a tool call."""
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": event.name, **decision}}


def read(files: list[str], meter: UsageMeter) -> None:
    """Read what Claude Code wrote of the conversation and its subagents since the last reading.

    A message is repeated, with the same id, for every block of its content. Usage that belongs to
    no message, such as a compaction's, is in the total that the program writes when it ends. The
    file of a fork begins with a copy of the other conversation's, and its total includes that one.
    """
    for name in files:
        for entry in read_new_lines(name, meter, (b'"usage"', b'"cost-state"')):
            if entry.get("type") == "cost-state":
                if not meter.since:
                    _take_cost_state(entry, meter)
                continue
            message = entry.get("message")
            if entry.get("type") != "assistant" or not isinstance(message, dict):
                continue
            usage, key = message.get("usage"), message.get("id")
            if str_of(entry.get("timestamp")) < meter.since:
                continue
            if isinstance(usage, dict) and isinstance(key, str):
                meter.saw(entry.get("timestamp"))
                meter.report(key, _claude_tokens(usage), str(message.get("model") or ""))


def known_files(path: str, _meter: UsageMeter, _conversation: str | None = None) -> list[str]:
    """Return the files of a conversation: its subagents' first, then its own."""
    return [*_subagents(path), path]


def _subagents(path: str) -> list[str]:
    folder = os.path.join(path.removesuffix(".jsonl"), "subagents")
    names = [one for one in names_in(folder) if one.endswith(".jsonl")]
    return [os.path.join(folder, one) for one in names][:_MAX_FILES]


def _claude_tokens(usage: dict[str, Any]) -> Tokens:
    output, details = count_of(usage.get("output_tokens")), usage.get("output_tokens_details")
    thought = count_of(details.get("thinking_tokens")) if isinstance(details, dict) else 0
    thought = min(thought, output)
    return Tokens(
        input=count_of(usage.get("input_tokens")),
        cache_read=count_of(usage.get("cache_read_input_tokens")),
        cache_write=count_of(usage.get("cache_creation_input_tokens")),
        output=output - thought,
        reasoning=thought,
    )


def _take_cost_state(entry: dict[str, Any], meter: UsageMeter) -> None:
    models = entry.get("modelUsage")
    totals, costs = {}, {}
    for name, one in models.items() if isinstance(models, dict) else ():
        if not isinstance(one, dict):
            continue
        details = {"thinking_tokens": one.get("thinkingTokens")}
        totals[name] = _claude_tokens(
            {
                "input_tokens": one.get("inputTokens"),
                "cache_read_input_tokens": one.get("cacheReadInputTokens"),
                "cache_creation_input_tokens": one.get("cacheCreationInputTokens"),
                "output_tokens": one.get("outputTokens"),
                "output_tokens_details": details,
            }
        )
        if not entry.get("hasUnknownModelCost"):
            costs[name] = micro_usd_of(one.get("costUSD"))
    if totals:
        meter.reach(totals, costs)
