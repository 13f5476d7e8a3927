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

from .tokens import NO_TOKENS, OwnCost, Tokens, UsageByModel, split

KEYS_KEPT: Final = 256
"""How many of a conversation's last messages are remembered by their ids."""
UNKNOWN: Final = "unknown"
"""The name of a model that the program does not name."""
_PIECE_BYTES: Final = 4 * 1024 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class UsageMeter:
    """The known usage of one conversation.

    Attributes:
        models: The tokens by model.
        own: The program's own figure of their cost, by model, where it gives one.
        offsets: How far each file is read, in bytes.
        keys: The last messages by their ids, oldest first: the tokens, and the program's own figure
            of their cost.
        threads: All tokens of each thread, by its file's name, if the program counts so.
        named: The last model named in each of these files.
        first: The time at which the first of these tokens were reported, as the program writes it.
        pending: The tokens by model of the last answer, if only an event reported it: the program
            writes it to its file once the answer's tools have run.
        is_lent: Whether `pending` counts as used already, because the program seems to be killed.
        edited: The changed files, if only the program's file has them, each with whether it was
            created; a caller that has recorded them empties the list.
        since: Usage before this time is of the conversation that this one is forked from; empty if
            it is no fork. It is UTC, as the program writes times.
        summary: The summary of the last compaction, if only the program's file has it.
    """

    __slots__ = (
        *("edited", "first", "is_lent", "keys", "models", "named"),
        *("offsets", "own", "pending", "since", "summary", "threads"),
    )

    def __init__(self, kept: object = None) -> None:
        """Read a stored meter; anything that is not one counts as empty."""
        given = kept if isinstance(kept, dict) and kept.keys() >= set(self.__slots__) else {}
        usage = usage_of(given)
        self.models = dict(usage.models)
        self.own = dict(usage.own)
        self.offsets = counts_of(given.get("offsets"))
        self.keys = _costs(given.get("keys"))
        self.threads = _tokens(given.get("threads"))
        self.named = _texts(given.get("named"))
        self.first = str_of(given.get("first"))
        self.pending = _tokens(given.get("pending"))
        self.is_lent = given.get("is_lent") is True
        self.since = str_of(given.get("since"))
        self.summary = str_of(given.get("summary"))
        self.edited = _edits(given.get("edited"))

    @property
    def total(self) -> int:
        """All tokens that were reported."""
        return self.usage.total

    @property
    def usage(self) -> UsageByModel:
        """What was reported so far."""
        models = dict(self.models)
        for name, tokens in self.pending.items() if self.is_lent else ():
            models[name] = models.get(name, NO_TOKENS).plus(tokens)
        return UsageByModel(models, dict(self.own))

    def expect(self, tokens: Tokens, model: str) -> None:
        """Remember the tokens of an answer that the program has not written to its file yet."""
        self.pending, self.is_lent = {model or UNKNOWN: tokens}, False

    def begin_again(self) -> None:
        """Count what the program did not write before it ended: it never will."""
        for name, tokens in self.pending.items():
            self._add(tokens, name)
        self.pending, self.is_lent = {}, False

    def saw(self, time: object) -> None:
        """Remember the earliest time at which tokens were reported."""
        found = str_of(time)
        self.first = min(filter(None, (self.first, found)), default="")

    def as_json(self) -> dict[str, Any]:
        """Return the state to store."""
        return {name: getattr(self, name) for name in self.__slots__}

    def report(self, key: str, tokens: Tokens, model: str = "", micro_usd: int = 0) -> None:
        """Count a message's tokens; if it is reported again, the largest figure counts."""
        if key not in self.keys:
            self.pending, self.is_lent = {}, False
        cost, known = self.keys.pop(key, OwnCost())
        found = max(known, tokens, key=lambda one: one.total)
        self.keys[key] = OwnCost(max(cost, micro_usd), found)
        if found is not known:
            self._add(found.minus(known), model)
        if micro_usd > cost:
            own = self.own.get(model or UNKNOWN, OwnCost())
            covered = own.covered.plus(found.minus(known) if cost else found)
            self.own[model or UNKNOWN] = OwnCost(own.micro_usd + micro_usd - cost, covered)
        while len(self.keys) > KEYS_KEPT:
            del self.keys[next(iter(self.keys))]

    def reach(self, totals: dict[str, Tokens], costs: dict[str, int]) -> None:
        """Raise the tokens to what the program reports for the conversation, if that is more.

        Args:
            totals: All tokens, by model.
            costs: The program's own figure of their cost, by model, in millionths of a US dollar.
        """
        more = sum(one.total for one in totals.values()) - self.total
        if more > 0:
            missing = {
                name: Tokens(*(max(0, kind) for kind in one.minus(self._of(name))))
                for name, one in totals.items()
            }
            if sum(one.total for one in missing.values()) != more:  # not the same names or kinds
                name = max(totals, key=lambda one: totals[one].total)
                missing = {name: split(more, missing[name])}
            for name, one in missing.items():
                self._add(one, name)
        for name, cost in costs.items():
            if cost > 0 and self._of(name).total == totals[name].total:
                self.own[name] = OwnCost(cost, self._of(name))

    def reach_of(self, thread: str, total: Tokens) -> None:
        """Raise a thread's tokens to what the program reports for it, if that is more."""
        known = self.threads.get(thread, NO_TOKENS)
        if total.total > known.total:
            self.threads[thread] = total
            self._add(total.minus(known), self.named.get(thread, ""))

    def _of(self, model: str) -> Tokens:
        return self.models.get(model, NO_TOKENS)

    def _add(self, tokens: Tokens, model: str) -> None:
        name = model or UNKNOWN
        if tokens.total:
            self.models[name] = self._of(name).plus(tokens)


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


def micro_usd_of(value: object) -> int:
    """Return a sum in US dollars in millionths; 0 for anything that is none."""
    if isinstance(value, int | float) and 0 <= value < 1_000_000:
        return round(value * 1_000_000)
    return 0


def str_of(value: object) -> str:
    """Return a value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def usage_of(value: object) -> UsageByModel:
    """Return stored usage; anything that is none counts as empty."""
    given = value if isinstance(value, dict) else {}
    return UsageByModel(_tokens(given.get("models")), _costs(given.get("own")))


def counts_of(value: object) -> dict[str, int]:
    """Return a stored mapping of names to counts; anything that is none counts as empty."""
    if not isinstance(value, dict):
        return {}
    return {name: count_of(one) for name, one in value.items() if isinstance(name, str)}


def _tokens(value: object) -> dict[str, Tokens]:
    if not isinstance(value, dict):
        return {}
    return {
        name: Tokens(*one)
        for name, one in value.items()
        if isinstance(one, list) and list(map(type, one)) == [int] * len(NO_TOKENS)
    }


def _costs(value: object) -> dict[str, OwnCost]:
    found = {}
    for name, one in value.items() if isinstance(value, dict) else ():
        if isinstance(one, list) and len(one) == 2:
            for tokens in _tokens({name: one[1]}).values():
                found[name] = OwnCost(count_of(one[0]), tokens)
    return found


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: str_of(one) for name, one in value.items() if isinstance(name, str)}


def _edits(value: object) -> list[tuple[str, bool]]:
    found = value if isinstance(value, list) else []
    pairs = [one for one in found if isinstance(one, list) and len(one) == 2]
    return [(path, bool(made)) for path, made in pairs if isinstance(path, str)]
