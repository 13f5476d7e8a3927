"""Codex: parse its hook input and format the answers; pure.

Codex calls hooks as Claude Code does, with the same fields (version 0.169). A hook can't stop it:
when a tool is denied, the model goes on; so the next prompt is refused instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from . import claude_code
from .hook_event import HookEvent, HookReply, Moment, text_of
from .meter import UsageMeter, count_of, names_in, read_new_lines, str_of
from .tokens import NO_TOKENS, Tokens, split

NAME: Final = "codex"
COMMAND: Final = "codex"
TRIED: Final = "0.169.0"
"""The version that the tests with the real program run."""
MAX_CONTEXT_CHARS: Final = 7_000
"""From 2,500 tokens on, the program cuts out the middle of a text."""
COMPACTED: Final = b'"type":"compacted"'
"""What its file has where the context was compacted; what is before that is not sent again."""
EVENTS: Final = claude_code.EVENTS
"""The events to register the hook for."""
takes_context: Final = claude_code.takes_context
_MAX_FILES: Final = 1000
_DAYS: Final = 2
_DEPTH: Final = 3
"""Levels of folders above the rollouts: year, month and day."""
_HEAD_BYTES: Final = 4096


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


def read(files: list[str], meter: UsageMeter) -> None:
    """Read what Codex wrote since the last reading: each thread's total, compactions included.

    The file of a forked thread may begin with its parent's records, which name the parent.
    """
    wanted = (
        b'"token_count"',
        b'"token_usage_record"',
        b'"turn_context"',
        b'"compacted"',
        b'"FileChange"',
    )
    for path in files:
        thread = os.path.basename(path)
        for entry in read_new_lines(path, meter, wanted):
            payload = entry.get("payload")
            if not isinstance(payload, dict):
                continue
            match entry.get("type"):
                case "turn_context":
                    meter.named[thread] = str_of(payload.get("model"))
                case "compacted":
                    meter.summary = _masked(summary_in(str_of(payload.get("message"))))
                case "token_usage_record" if _is_of_thread(thread, payload.get("thread_id")):
                    meter.saw(entry.get("timestamp"))
                    meter.reach_of(thread, _codex_tokens(payload.get("thread_token_usage")))
                case "event_msg" if isinstance(payload.get("item"), dict):
                    meter.edited += _changed_files(payload["item"])
                case "event_msg" if isinstance(payload.get("info"), dict):
                    meter.saw(entry.get("timestamp"))
                    total = payload["info"].get("total_token_usage")
                    meter.reach_of(thread, _codex_tokens(total))


def _changed_files(item: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the files that a patch created or modified."""
    changes = item.get("changes")
    if item.get("type") != "FileChange" or item.get("status") != "completed":
        return []
    found = []
    for path, change in changes.items() if isinstance(changes, dict) else ():
        kind = change.get("type") if isinstance(change, dict) else None
        if kind in {"add", "update"}:
            found.append((str_of(change.get("move_path")) or str(path), kind == "add"))
    return found


def _is_of_thread(name: str, thread: object) -> bool:
    return not isinstance(thread, str) or name.removesuffix(".jsonl").endswith(thread)


def known_files(path: str, meter: UsageMeter, conversation: str | None = None) -> list[str]:
    """Return the files of a conversation: its own, its subagents', and those found by its id."""
    found = [] if conversation is None else _find_files(path, conversation)
    return list(dict.fromkeys([path, *meter.offsets, *found]))


def _find_files(path: str, conversation: str) -> list[str]:
    """Return the files of a conversation's recent subagents.

    Their names have the form of the conversation's own file name, with a later time; they are in
    the folder of the conversation's day or of the last days; their first line names the
    conversation. A subagent's hooks name its file, too: this finds the files of subagents whose
    hooks did not finish.

    Args:
        path: The conversation's own file: `sessions/YYYY/MM/DD/rollout-{time}-{id}.jsonl`.
        conversation: The program's id of the conversation.
    """
    own_folder, own_name = os.path.split(path)
    own_stem = own_name.removesuffix(".jsonl")
    root = own_folder
    for _ in range(_DEPTH):
        root = os.path.dirname(root)
    found = []
    for folder in dict.fromkeys([own_folder, *_last_days(root)]):
        for name in names_in(folder):
            stem, kind = os.path.splitext(name)
            if stem > own_stem and stem.startswith("rollout-") and kind == ".jsonl":
                file = os.path.join(folder, name)
                if _names_conversation(file, conversation):
                    found.append(file)
    return found[:_MAX_FILES]


def _last_days(root: str, *, depth: int = _DEPTH) -> list[str]:
    """Return the last two of the folders `YYYY/MM/DD`."""
    if depth == 0:
        return [root]
    found: list[str] = []
    for name in reversed(names_in(root)):
        if name.isdigit():
            found += _last_days(os.path.join(root, name), depth=depth - 1)
            if len(found) >= _DAYS:
                break
    return found[:_DAYS]


def _names_conversation(path: str, conversation: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = os.pread(fd, _HEAD_BYTES, 0).replace(b" ", b"")
    except OSError:
        return False
    finally:
        os.close(fd)
    return f'"session_id":{json.dumps(conversation)}'.encode() in head


def _codex_tokens(usage: object) -> Tokens:
    """Return the tokens by kind; the program counts cached ones as input, thoughts as output."""
    if not isinstance(usage, dict):
        return NO_TOKENS
    cached, written = (
        count_of(usage.get(f"{kind}_input_tokens")) for kind in ("cached", "cache_write")
    )
    thought = count_of(usage.get("reasoning_output_tokens"))
    said = max(0, count_of(usage.get("output_tokens")) - thought)
    return split(count_of(usage.get("total_tokens")), Tokens(0, cached, written, said, thought))


def summary_in(message: str) -> str:
    """Return a summary without the line that introduces it to the model."""
    first, _, rest = message.partition("\n")
    return rest if rest and first.endswith(":") else message


def _masked(text: str) -> str:
    from ...base.text.masking import mask  # only a compacted conversation needs it

    return mask(text).text
