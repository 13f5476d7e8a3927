"""What a conversation cost so far, from the files in which an agent program keeps it.

The files only grow, so each is read from where the last reading ended, line by line; a line that is
not whole yet is left for the next time. What was read is a `Meter`, which a caller keeps as JSON: a
pure function of the files, so that a lost one is made again by reading them anew.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final

KEYS_KEPT: Final = 256
"""How many of the last messages of a conversation are remembered by their ids."""
_PIECE_BYTES: Final = 4 * 1024 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_MAX_FILES: Final = 1000
_SHORT_ID: Final = 8


class Meter:
    """What is known of the usage of one conversation.

    Attributes:
        total: All tokens that were reported.
        models: The same by model.
        offsets: How far each file is read, in bytes.
        keys: What the last messages cost, by their ids, oldest first.
        model: The model that was named last, where messages don't name theirs.
        summary: The summary of the last compaction, where only the file has it.
    """

    __slots__ = ("keys", "model", "models", "offsets", "summary", "total")

    def __init__(self, kept: object = None) -> None:
        """Take up what was kept; whatever is no meter is as nothing."""
        given = kept if isinstance(kept, dict) else {}
        self.total = _count(given.get("total"))
        self.models = _counts(given.get("models"))
        self.offsets = _counts(given.get("offsets"))
        self.keys = _counts(given.get("keys"))
        self.model = _text(given.get("model"))
        self.summary = _text(given.get("summary"))

    def as_json(self) -> dict[str, Any]:
        """Return what is to be kept."""
        return {name: getattr(self, name) for name in self.__slots__}

    def report(self, key: str, tokens: int, model: str = "") -> None:
        """Take what a message cost; where it is reported again, the largest figure counts."""
        known = self.keys.pop(key, 0)
        self.keys[key] = max(known, tokens)
        if tokens > known:
            self._add(tokens - known, model)
        while len(self.keys) > KEYS_KEPT:
            del self.keys[next(iter(self.keys))]

    def reach(self, total: int, model: str = "") -> None:
        """Take what a program says that the conversation has cost in all, if that is more."""
        if total > self.total:
            self._add(total - self.total, model)

    def _add(self, tokens: int, model: str) -> None:
        self.total += tokens
        name = model or "unknown"
        self.models[name] = self.models.get(name, 0) + tokens


def read_new_lines(path: str, meter: Meter, wanted: tuple[bytes, ...]) -> Iterator[dict[str, Any]]:
    """Yield the new entries of a file that have one of some words; the meter keeps how far it went.

    What can't be opened, and what is no regular file, has none. A file that is shorter than it was
    is read anew.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return
        offset = meter.offsets.get(path, 0)
        if offset > status.st_size:
            offset = 0
        for line, end in _lines(fd, offset):
            if any(word in line for word in wanted):
                entry = _object(line)
                if entry is not None:
                    yield entry
            meter.offsets[path] = end
    finally:
        os.close(fd)


def _lines(fd: int, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each whole line with the offset after it."""
    rest = b""
    position = offset
    while piece := os.pread(fd, _PIECE_BYTES, position + len(rest)):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            position += len(line) + 1
            yield line, position
        if len(rest) > _MAX_LINE_BYTES:
            return


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_claude(path: str, meter: Meter) -> None:
    """Take what Claude Code wrote since the last time: the conversation and its subagents.

    Each message stands there once for every block of its content, with the same id. What no message
    has, a compaction, is in the total that the program writes when it ends.
    """
    for name in claude_files(path):
        for entry in read_new_lines(name, meter, (b'"usage"', b'"cost-state"')):
            if entry.get("type") == "cost-state":
                _take_cost_state(entry, meter)
                continue
            message = entry.get("message")
            if entry.get("type") != "assistant" or not isinstance(message, dict):
                continue
            usage, key = message.get("usage"), message.get("id")
            if isinstance(usage, dict) and isinstance(key, str):
                meter.report(key, _claude_tokens(usage), str(message.get("model") or ""))


def claude_files(path: str) -> list[str]:
    """Return the files of a conversation of Claude Code: its subagents' first, then its own."""
    return [*_subagents(path), path]


def _subagents(path: str) -> list[str]:
    folder = os.path.join(path.removesuffix(".jsonl"), "subagents")
    names = [one for one in _names(folder) if one.endswith(".jsonl")]
    return [os.path.join(folder, one) for one in names][:_MAX_FILES]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def _claude_tokens(usage: dict[str, Any]) -> int:
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_count(usage.get(kind)) for kind in (*kinds, "output_tokens"))


def _take_cost_state(entry: dict[str, Any], meter: Meter) -> None:
    kinds = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    models = entry.get("modelUsage")
    if not isinstance(models, dict):
        return
    totals = {
        str(name): sum(_count(one.get(kind)) for kind in kinds)
        for name, one in models.items()
        if isinstance(one, dict)
    }
    if totals:
        meter.reach(sum(totals.values()), max(totals, key=lambda name: totals[name]))


def read_codex(path: str, meter: Meter) -> None:
    """Take what Codex wrote since the last time: its own totals, compactions included."""
    wanted = (b'"token_count"', b'"token_usage_record"', b'"turn_context"', b'"compacted"')
    for entry in read_new_lines(path, meter, wanted):
        payload = entry.get("payload")
        if not isinstance(payload, dict):
            continue
        match entry.get("type"):
            case "turn_context":
                meter.model = _text(payload.get("model"))
            case "compacted":
                meter.summary = _codex_summary(_text(payload.get("message")))
            case "token_usage_record":
                meter.reach(_codex_tokens(payload.get("thread_token_usage")), meter.model)
            case "event_msg" if isinstance(payload.get("info"), dict):
                total = payload["info"].get("total_token_usage")
                meter.reach(_codex_tokens(total), meter.model)


def read_gemini(path: str, meter: Meter) -> None:
    """Take what Gemini CLI wrote since the last time: the conversation and its subagents.

    A message is written again when its tools have run, with the same id.
    """
    for name in gemini_files(path):
        for entry in read_new_lines(name, meter, (b'"tokens"',)):
            tokens, key = entry.get("tokens"), entry.get("id")
            if entry.get("type") == "gemini" and isinstance(tokens, dict) and isinstance(key, str):
                meter.report(key, _count(tokens.get("total")), _text(entry.get("model")))


def gemini_files(path: str) -> list[str]:
    """Return the files of a conversation of Gemini CLI: its subagents' first, then its own.

    Its own are named by the beginning of its id, the folder of its subagents by all of that. When
    it goes on, the program names a new file first and writes to the old one then.
    """
    chats, name = os.path.split(path)
    short = name.removesuffix(".jsonl").rpartition("-")[2]
    inside, own = [], [path]
    for one in _names(chats) if len(short) == _SHORT_ID else []:
        if one.startswith(short):
            folder = os.path.join(chats, one)
            inside += [os.path.join(folder, file) for file in _names(folder)]
        elif one.endswith(f"-{short}.jsonl") and one != name:
            own.append(os.path.join(chats, one))
    return [*[one for one in inside if one.endswith(".jsonl")][:_MAX_FILES], *own[:_MAX_FILES]]


def _codex_tokens(usage: object) -> int:
    return _count(usage.get("total_tokens")) if isinstance(usage, dict) else 0


def _codex_summary(message: str) -> str:
    """Take off the line by which the summary is introduced to the model."""
    first, _, rest = message.partition("\n")
    return rest if rest and first.endswith(":") else message


READERS: Final[dict[str, Callable[[str, Meter], None]]] = {
    "claude-code": read_claude,
    "codex": read_codex,
    "gemini": read_gemini,
}
"""How each program's files are read; others report their usage with their events."""


_FILES: Final = {"claude-code": claude_files, "gemini": gemini_files}


def has_read_all(program: str, path: str | None, meter: Meter) -> bool:
    """Return whether a conversation's files are as long as they were when they were read last."""
    if path is None or program not in READERS:
        return True
    files = _FILES.get(program, lambda one: [one])(path)
    return all(_size(one) == meter.offsets.get(one, -1) for one in files)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return -1


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 10**15 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {name: _count(one) for name, one in value.items() if isinstance(name, str)}
