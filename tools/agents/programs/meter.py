"""The cost of a conversation so far, read incrementally from the program's own files.

The files only grow, so each is read from where the last reading ended, line by line; an incomplete
last line is left for the next time. The result is a `UsageMeter`, which a caller stores as JSON:
a pure function of the files, so a lost one is rebuilt by reading them from the beginning.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

KEYS_KEPT: Final = 256
"""How many of a conversation's last messages are remembered by their ids."""
_PIECE_BYTES: Final = 4 * 1024 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class UsageMeter:
    """The known usage of one conversation.

    Attributes:
        total: All tokens that were reported.
        models: The same by model.
        offsets: How far each file is read, in bytes.
        keys: The cost of the last messages, by their ids, oldest first.
        threads: The total cost of each thread, by its file's name, if the program counts so.
        named: The last model named in each of these files.
        edited: The changed files, if only the program's file has them, each with whether it was
            created; a caller that has recorded them empties the list.
        summary: The summary of the last compaction, if only the program's file has it.
    """

    __slots__ = ("edited", "keys", "models", "named", "offsets", "summary", "threads", "total")

    def __init__(self, kept: object = None) -> None:
        """Read a stored meter; anything that is not one counts as empty."""
        given = kept if isinstance(kept, dict) and kept.keys() >= set(self.__slots__) else {}
        self.total = count_of(given.get("total"))
        self.models = _counts(given.get("models"))
        self.offsets = _counts(given.get("offsets"))
        self.keys = _counts(given.get("keys"))
        self.threads = _counts(given.get("threads"))
        self.named = _texts(given.get("named"))
        self.summary = str_of(given.get("summary"))
        self.edited = _edits(given.get("edited"))

    def as_json(self) -> dict[str, Any]:
        """Return the state to store."""
        return {name: getattr(self, name) for name in self.__slots__}

    def report(self, key: str, tokens: int, model: str = "") -> None:
        """Count a message's cost; if it is reported again, the largest figure counts."""
        known = self.keys.pop(key, 0)
        self.keys[key] = max(known, tokens)
        if tokens > known:
            self._add(tokens - known, model)
        while len(self.keys) > KEYS_KEPT:
            del self.keys[next(iter(self.keys))]

    def reach(self, total: int, model: str = "") -> None:
        """Raise the total to what the program reports for the conversation, if that is more."""
        if total > self.total:
            self._add(total - self.total, model)

    def reach_of(self, thread: str, total: int) -> None:
        """Raise a thread's total to what the program reports for it, if that is more."""
        known = self.threads.get(thread, 0)
        if total > known:
            self.threads[thread] = total
            self._add(total - known, self.named.get(thread, ""))

    def _add(self, tokens: int, model: str) -> None:
        self.total += tokens
        name = model or "unknown"
        self.models[name] = self.models.get(name, 0) + tokens


def read_new_lines(
    path: str, meter: UsageMeter, wanted: tuple[bytes, ...]
) -> Iterator[dict[str, Any]]:
    """Yield a file's new entries that contain one of some words; advance the meter's offset.

    Yield nothing for a file that can't be opened or is not a regular one. A file that has become
    shorter is read again from the beginning.
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
                entry = object_of(line)
                if entry is not None:
                    yield entry
            meter.offsets[path] = end
    finally:
        os.close(fd)


def _lines(fd: int, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each complete line with the offset after it."""
    rest = b""
    position = offset
    while piece := os.pread(fd, _PIECE_BYTES, position + len(rest)):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            position += len(line) + 1
            yield line, position
        if len(rest) > _MAX_LINE_BYTES:
            return


def object_of(line: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object in a text, or None if it is not one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def names_in(folder: str) -> list[str]:
    """Return the names in a folder, sorted; empty if it can't be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def count_of(value: object) -> int:
    """Return a value if it is a count of tokens or bytes, else 0."""
    return value if type(value) is int and 0 <= value < 10**15 else 0


def str_of(value: object) -> str:
    """Return a value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {name: count_of(one) for name, one in value.items() if isinstance(name, str)}


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: str_of(one) for name, one in value.items() if isinstance(name, str)}


def _edits(value: object) -> list[tuple[str, bool]]:
    found = value if isinstance(value, list) else []
    pairs = [one for one in found if isinstance(one, list) and len(one) == 2]
    return [(path, bool(made)) for path, made in pairs if isinstance(path, str)]
