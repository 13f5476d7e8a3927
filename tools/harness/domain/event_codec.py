"""Converts events to history entry data and back; pure, and the only place that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin

from .entry_data import EntryData, freeze
from .event_values import Occurrence
from .history_events import EVENTS, GateJudged, HistoryEvent, PersonAnswer
from .session_checks import InvalidSession, storable

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
    if isinstance(value, HistoryEvent | GateJudged | PersonAnswer):
        return dict(_written(value, spell))
    return value
