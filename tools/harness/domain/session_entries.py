"""The parts of a session's record, artifacts and history entries, and the events in them; pure.

Both are immutable values, checked when they are built; every fault is reported at once. Events are
converted to the data of entries and back here alone.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from types import NoneType
from typing import Any, Final, Self, TypeVar, cast, get_args, get_origin

from .event_values import Occurrence
from .history_events import EVENTS, GateJudged, HistoryEvent, PersonAnswer, PhaseRequest
from .session_checks import (
    InvalidSession,
    in_utc,
    name_fault,
    path_fault,
    storable,
    text_fault,
    time_fault,
    time_text,
    with_type,
)
from .session_data import NO_DATA, EntryData, freeze, thawed

_Event = TypeVar("_Event", bound=HistoryEvent)

NOTE: Final = EntryData(note=True)
"""Data of a caller's note whose action is an event's name; it marks the entry as no event."""


class _Unfit(Exception):
    """A value does not fit its field."""


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _Unfit
        return value

    return read


def _seconds(value: Any) -> float:
    if type(value) not in {int, float}:
        raise _Unfit
    return float(value)


def _counts(value: Any) -> Mapping[str, int]:
    if not isinstance(value, EntryData) or not all(type(one) is int for one in value.values()):
        raise _Unfit
    return value


def _reader(annotation: Any) -> Callable[[Any], Any]:
    """Return the reader of a field with this annotation."""
    if annotation in _EXACT:
        return _EXACT[annotation]
    inner = get_args(annotation)
    if not inner:  # a value with fields of its own, as an event is
        mapping = _exactly(EntryData)
        return lambda value: _read(annotation, mapping(value))
    if get_origin(annotation) is Mapping:
        return _counts
    read = _reader(inner[0])
    if NoneType in inner:
        return lambda value: None if value is None else read(value)
    several = _exactly(tuple)
    return lambda value: tuple(map(read, several(value)))


_EXACT: Final[Mapping[type, Callable[[Any], Any]]] = {
    **{kind: _exactly(kind) for kind in (bool, int, str)},
    float: _seconds,
}


@cache
def _fields(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((one.name, _reader(one.type)) for one in fields(kind))


def _read(kind: type, data: Mapping[str, Any]) -> Any:
    """Build an event, or a part of one; extra fields from a newer version are ignored."""
    try:
        return kind(**{name: read(data[name]) for name, read in _fields(kind) if name in data})
    except TypeError as error:  # a field without a default is missing
        raise _Unfit from error


def event_from(action: str, data: EntryData) -> HistoryEvent | None:
    """Return the event that an entry's data encodes, or None if it encodes none."""
    kind = EVENTS.get(action)
    if kind is None or "note" in data:
        return None
    try:
        event: HistoryEvent = _read(kind, data)
    except _Unfit:
        return None
    return event


def data_of(event: HistoryEvent) -> dict[str, Any]:
    """Return an event's fields as data."""
    return dict(_written(event, str))


def logged(event: Occurrence) -> dict[str, Any]:
    """Return the fields of an event that are logged."""
    quiet = {one.name for one in fields(event) if not one.metadata.get("logged", True)}
    return {name: value for name, value in _written(event, str) if name not in quiet}


def spelled(event: _Event) -> _Event:
    """Return the event with characters that UTF-8 can't encode escaped, for text from outside."""
    data, faults = freeze(_plain(event, storable))
    if faults:
        raise InvalidSession(faults)
    try:
        found: _Event = _read(type(event), data)
    except _Unfit as error:
        raise InvalidSession([f"{event.action}: a field is not what it takes"]) from error
    return found


def _written(event: Any, spell: Callable[[str], str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an event, or of a part of one, that its data contains."""
    for one in fields(event):
        value = getattr(event, one.name)
        if value is not None or not one.metadata.get("omitted", False):
            yield one.name, _plain(value, spell)


def _plain(value: Any, spell: Callable[[str], str] = str) -> Any:
    if isinstance(value, str):
        return spell(value)
    if isinstance(value, tuple | list):
        return tuple(_plain(one, spell) for one in value)
    if isinstance(value, Mapping):
        return {spell(str(name)): _plain(one, spell) for name, one in value.items()}
    if isinstance(value, HistoryEvent | GateJudged | PersonAnswer | PhaseRequest):
        return dict(_written(value, spell))
    return value


_Kind = TypeVar("_Kind")

ARTIFACT_TYPES: Final = ("created", "modified")


@dataclass(frozen=True, slots=True)
class SessionArtifact:
    """A file that the work created or modified.

    Attributes:
        path: Relative to the workspace, with `/`, never outside of it.
        artifact_type: "created" or "modified".
        timestamp: When it was recorded, in UTC.
        phase: The phase that made it, or None.
        newer_fields: Fields that a newer version wrote, as YAML; saves write them back.
    """

    path: str
    artifact_type: str
    timestamp: datetime
    phase: str | None = None
    newer_fields: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if getattr(self.timestamp, "tzinfo", None) is not UTC:
            object.__setattr__(self, "timestamp", in_utc(self.timestamp))
        faults = path_fault("path", self.path)
        if self.artifact_type not in ARTIFACT_TYPES:
            faults.append(
                f"artifact_type: {with_type(self.artifact_type)} is neither "
                f"{' nor '.join(map(repr, ARTIFACT_TYPES))}"
            )
        faults += time_fault("timestamp", self.timestamp)
        faults += name_fault("phase", self.phase, optional=True)
        if faults:
            raise InvalidSession(faults)

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as a new dict of JSON values."""
        return {
            "path": self.path,
            "artifact_type": self.artifact_type,
            "timestamp": time_text(self.timestamp),
            "phase": self.phase,
        }


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """One entry of the audit trail.

    Attributes:
        timestamp: When it happened, in UTC.
        action: What happened ("session_created", "phase_advanced", …).
        phase: The phase it happened in, or None.
        details: More text for people, of any length, or None.
        newer_fields: Fields that a newer version wrote, as YAML; saves write them back.
        data: The same for programs: an immutable mapping of JSON values.
    """

    timestamp: datetime
    action: str
    phase: str | None = None
    details: str | None = None
    newer_fields: str = field(default="", repr=False)
    data: Mapping[str, Any] = field(default=NO_DATA, hash=False)

    def __post_init__(self) -> None:
        if getattr(self.timestamp, "tzinfo", None) is not UTC:
            object.__setattr__(self, "timestamp", in_utc(self.timestamp))
        faults = time_fault("timestamp", self.timestamp)
        faults += name_fault("action", self.action, optional=False)
        if self.phase is not None:
            faults += name_fault("phase", self.phase, optional=True)
        if type(self.details) is not str or not self.details.isascii():
            faults += text_fault("details", self.details, optional=True, limit=None)
        if self.data is not NO_DATA:
            data, wrong = freeze(self.data)
            object.__setattr__(self, "data", data)
            faults += wrong
        if faults:
            raise InvalidSession(faults)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as a new dict of JSON values."""
        return {
            "timestamp": time_text(self.timestamp),
            "action": self.action,
            "phase": self.phase,
            "details": self.details,
            "data": thawed(self.data),
        }

    @classmethod
    def of(
        cls,
        event: HistoryEvent,
        timestamp: datetime,
        phase: str | None,
        *,
        details: str | None = None,
    ) -> Self:
        """Return the history entry of an event.

        Args:
            event: What happened.
            timestamp: When it happened.
            phase: The phase it happened in, or None.
            details: Text for people; by default the event's own sentence.

        Raises:
            InvalidSession: A value is invalid; every fault is listed.
        """
        text = event.sentence if details is None else details
        return cls(timestamp, event.action, phase, text, data=data_of(event))

    @classmethod
    def note(
        cls,
        action: str,
        timestamp: datetime,
        phase: str | None,
        details: str | None,
        *,
        tokens: int = 0,
    ) -> Self:
        """Return the history entry of a caller's note, which is not an event, whatever its action.

        Args:
            action: What happened.
            timestamp: When it happened.
            phase: The phase it happened in, or None.
            details: More text for people, or None.
            tokens: What it cost.

        Raises:
            InvalidSession: A value is invalid; every fault is listed.
        """
        data: Mapping[str, Any] = NOTE if action in EVENTS else NO_DATA
        if tokens:
            data = {**data, "tokens": tokens}
        return cls(timestamp, action, phase, details, data=data)

    @property
    def event(self) -> HistoryEvent | None:
        """The event with its fields; None for a note."""
        return event_from(self.action, cast(EntryData, self.data))

    @property
    def event_type(self) -> type[HistoryEvent] | None:
        """The class of `event`, without reading its fields; None for a note."""
        return None if "note" in self.data else EVENTS.get(self.action)


def newest_events(
    history: Sequence[SessionHistory], *kinds: type[_Event]
) -> Iterator[tuple[int, _Event]]:
    """Yield the events of some kinds, newest first, each with its position in the history.

    Entries of other kinds are not decoded.
    """
    for position in reversed(range(len(history))):
        entry = history[position]
        if entry.event_type in kinds and isinstance(event := entry.event, kinds):
            yield position, event


def _of_columns(kind: type[_Kind]) -> Callable[..., list[_Kind]]:
    """Return a function that builds many values of a class from checked fields, column by column.

    Its arguments are the number of values, then one column per field, in the fields' order. This
    takes a quarter of the time of the constructor, which checks each value; it matters for long
    histories.
    """
    setters = [vars(kind)[one.name].__set__ for one in fields(cast(Any, kind))]

    def make(count: int, *columns: Iterable[Any]) -> list[_Kind]:
        made = list(map(object.__new__, repeat(kind, count)))
        for setter, column in zip(setters, columns, strict=True):
            deque(map(setter, made, column), maxlen=0)
        return made

    return make


sound_entries: Final = _of_columns(SessionHistory)
"""Build entries from values that the caller has checked, as bulk readers do."""
sound_artifacts: Final = _of_columns(SessionArtifact)
"""Build artifacts likewise."""
