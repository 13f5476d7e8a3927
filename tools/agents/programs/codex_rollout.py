"""Codex's "rollouts" of a conversation: one file for each of its threads.

Subagents are threads. A thread's file repeats the running total of that thread, compactions
included, but not the totals of its subagents or its parent.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from .meter import Meter, count_of, names_in, read_new_lines, str_of

_MAX_FILES: Final = 1000
_DAYS: Final = 2
_DEPTH: Final = 3
"""Levels of folders above the rollouts: year, month and day."""
_HEAD_BYTES: Final = 4096


def read(files: list[str], meter: Meter) -> None:
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
                    meter.summary = _codex_summary(str_of(payload.get("message")))
                case "token_usage_record" if _is_of_thread(thread, payload.get("thread_id")):
                    meter.reach_of(thread, _codex_tokens(payload.get("thread_token_usage")))
                case "event_msg" if isinstance(payload.get("item"), dict):
                    meter.edited += _changed_files(payload["item"])
                case "event_msg" if isinstance(payload.get("info"), dict):
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


def known_files(path: str, meter: Meter, conversation: str | None = None) -> list[str]:
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


def _codex_tokens(usage: object) -> int:
    return count_of(usage.get("total_tokens")) if isinstance(usage, dict) else 0


def _codex_summary(message: str) -> str:
    """Remove the line that introduces the summary to the model."""
    first, _, rest = message.partition("\n")
    return rest if rest and first.endswith(":") else message
