"""The entries of a log of steps: their heads, as lists in JSON; pure.

    ["step", path, index, outcome, codec, tokens, micro_usd, started, took_us, attempts, *sums]
    ["failed", path, index, error, tokens, micro_usd, started, *sums]
    ["timer", path, index, until, *sums]             ["version", path, index, number, *sums]
    ["reserve", holder, tokens, micro_usd, *sums]    ["charge", holder, tokens, micro_usd, *sums]
    ["signal", name, by, at, *sums]                  ["lead", token, worker, at, *sums]
    ["finish", codec, at, *sums]                     ["rewind", sequence, at, *sums]

The sums are those after the entry: its sequence number (1, 2, ...), how many steps were recorded,
and what they cost; so the last entry alone says what a log adds to its session. Moments are in
microseconds since the epoch, UTC. The results of steps, the values of signals and the result of the
program are the entries' bodies.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ...base.errors import shown
from ...base.settings.spending import Amount
from ..stream_port import StreamEntry
from .errors import InvalidStepName, StepsUnreadable

STREAM: Final = "steps"
"""The stream of the log."""
MAX_NAME_CHARS: Final = 200
MAX_SCOPE_DEPTH: Final = 32
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOT_IN_NAMES: Final = frozenset('/#"\\')
_SUMS: Final = 4
_MAX_COUNT: Final = 2**53
_MAX_MOMENT: Final = 2**57
_STEP: Final = b'["step","'
REWIND: Final = b'["rewind",'
"""The beginning of the head of an entry that goes back."""


class Kind(StrEnum):
    """What an entry is."""

    STEP = "step"
    FAILED = "failed"
    TIMER = "timer"
    VERSION = "version"
    RESERVE = "reserve"
    CHARGE = "charge"
    SIGNAL = "signal"
    LEAD = "lead"
    FINISH = "finish"
    REWIND = "rewind"


_SHAPES: Final[dict[str, tuple[type, ...]]] = {
    Kind.STEP: (str, int, str, str, int, int, int, int, int),
    Kind.FAILED: (str, int, str, int, int, int),
    Kind.TIMER: (str, int, int),
    Kind.VERSION: (str, int, int),
    Kind.RESERVE: (str, int, int),
    Kind.CHARGE: (str, int, int),
    Kind.SIGNAL: (str, str, int),
    Kind.LEAD: (str, str, int),
    Kind.FINISH: (str, int),
    Kind.REWIND: (int, int),
}
"""The types of the fields between an entry's kind and its sums."""


NOTHING: Final = Amount()


class Sums(NamedTuple):
    """What a log holds up to one of its entries.

    Attributes:
        sequence: The number of entries.
        recorded: The number of recorded steps, rewound ones included.
        tokens: The tokens that were spent.
        micro_usd: The cost in millionths of a US dollar, as far as it is known.
    """

    sequence: int = 0
    recorded: int = 0
    tokens: int = 0
    micro_usd: int = 0

    @property
    def spent(self) -> Amount:
        """What was spent."""
        return Amount(self.tokens, self.micro_usd)


class StepRecord(NamedTuple):
    """A recorded step.

    Attributes:
        path: The scope, name and ordinal of the step: "draft#3", "outer#1/inner#2".
        call: The number of the call in its scope, from 0.
        outcome: "ok", or "failed" for an exception that is final.
        codec: The format of its body.
        spent: What it cost.
        started: When its last attempt started, in microseconds since the epoch.
        took_us: How long that attempt took, in microseconds.
        attempts: How often it was tried by the worker that recorded it.
        sequence: The number of its entry in the log.
        entry: Its entry; at position -1 if this process appended it since it last read the log.
    """

    path: str
    call: int
    outcome: str
    codec: str
    spent: Amount
    started: int
    took_us: int
    attempts: int
    sequence: int
    entry: StreamEntry

    @property
    def scope(self) -> str:
        """The path of the step that it is a part of; empty for none."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name, without scope and ordinal."""
        return name_in(self.path)

    @property
    def at(self) -> datetime:
        """When its last attempt started."""
        return moment(self.started)


class ReadHead(NamedTuple):
    """A head as it was read.

    Attributes:
        kind: What the entry is.
        fields: What is between the kind and the sums.
        sums: The sums after the entry.
    """

    kind: str
    fields: Sequence[Any]
    sums: Sums


def step_path(scope: str, name: str, ordinal: int) -> str:
    """Return the path of a step: it needs no escapes in JSON.

    Raises:
        InvalidStepName: The name is empty, longer than 200 characters, has a line break, a slash, a
            number sign, a quotation mark or a backslash, or the scope is more than 32 steps deep.
    """
    if not 1 <= len(name) <= MAX_NAME_CHARS:
        raise InvalidStepName(name=name[:MAX_NAME_CHARS], reason="1 to 200 characters are")
    if not name.isprintable() or not _NOT_IN_NAMES.isdisjoint(name):
        raise InvalidStepName(
            name=name, reason='only printable characters other than / # " and the backslash are'
        )
    if scope.count("/") >= MAX_SCOPE_DEPTH - 1:
        raise InvalidStepName(name=name, reason="up to 32 steps within each other are")
    own = f"{name}#{ordinal}"
    return f"{scope}/{own}" if scope else own


def name_in(path: str) -> str:
    """Return the name of the step that a path leads to."""
    return path.rpartition("/")[2].rpartition("#")[0]


def microseconds(at: datetime) -> int:
    """Return a moment in microseconds since the epoch."""
    return (at - _EPOCH) // _MICROSECOND


def moment(microseconds_since: int) -> datetime:
    """Return the moment that is so many microseconds after the epoch."""
    return _EPOCH + microseconds_since * _MICROSECOND


def encode_head(kind: Kind, fields: Sequence[object], sums: Sums) -> bytes:
    """Return the head of an entry."""
    return json.dumps([kind, *fields, *sums], ensure_ascii=False, separators=(",", ":")).encode()


def is_step(head: bytes) -> bool:
    """Return whether a head is that of a recorded step."""
    return head.startswith(_STEP)


def call_in(head: bytes, path: bytes) -> bytes:
    """Return the scope and the number of the call of a recorded step, as b"outer#1,5".

    Args:
        head: Its head.
        path: Its path, which the head begins with.
    """
    begin = len(_STEP) + len(path) + 1
    return path.rpartition(b"/")[0] + head[begin : head.find(b',"', begin)]


def decode_head(session_id: str, head: bytes) -> ReadHead:
    """Return what a head says.

    Raises:
        StepsUnreadable: It is not in this program's format.
    """
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(head)
    if isinstance(found, list) and len(found) > _SUMS:
        kind, fields, sums = found[0], found[1:-_SUMS], found[-_SUMS:]
        shape = _SHAPES.get(kind) if type(kind) is str else None
        if (
            shape is not None
            and tuple(map(type, fields)) == shape
            and all(type(one) is int and 0 <= one < _MAX_COUNT for one in sums)
        ):
            return ReadHead(kind, fields, Sums(*sums))
    reason = f"{shown(head)} is no head of an entry"
    raise StepsUnreadable(session_id, reason=reason)


def decode_record(session_id: str, entry: StreamEntry) -> StepRecord:
    """Return the recorded step of an entry.

    Raises:
        StepsUnreadable: It is not in this program's format.
    """
    read = decode_head(session_id, entry.head)
    if read.kind != Kind.STEP or not 0 <= read.fields[6] < _MAX_MOMENT:
        raise StepsUnreadable(session_id, reason=f"{shown(entry.head)} is no step")
    path, index, outcome, codec, tokens, micro_usd, started, took_us, attempts = read.fields
    spent, sequence = Amount(tokens, micro_usd), read.sums.sequence
    return StepRecord(
        path, index, outcome, codec, spent, started, took_us, attempts, sequence, entry
    )
