"""What a session's record consists of: the files made, and the entries of its history; pure.

Both are values: checked when they are built, all that is wrong reported at once, and never changed.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final, Self, TypeVar, cast

from .entry_data import NO_DATA, EntryData, freeze, thawed
from .event_codec import NOTE, data_of, event_from
from .history_events import EVENTS, HistoryEvent
from .session_checks import (
    InvalidSession,
    in_utc,
    name_fault,
    path_fault,
    text_fault,
    time_fault,
    time_text,
    with_type,
)

_Kind = TypeVar("_Kind")
_Event = TypeVar("_Event", bound=HistoryEvent)

ARTIFACT_TYPES: Final = ("created", "modified")


@dataclass(frozen=True, slots=True)
class SessionArtifact:
    """A file that the work created or modified.

    Attributes:
        path: Relative to the workspace, with `/`, never leading out of it.
        artifact_type: "created" or "modified".
        timestamp: When it was recorded, in UTC.
        phase: The phase that made it, or None.
        newer_fields: Fields that a newer version wrote, as YAML; kept for it.
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
        """Return the artifact as JSON has it, a fresh copy."""
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
        details: More to say to people, of any length, or None.
        newer_fields: Fields that a newer version wrote, as YAML; kept for it.
        data: The same for programs: a mapping as JSON has it, which can't be changed.
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
        """Return the entry as JSON has it, a fresh copy."""
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
        """Make the entry of an event.

        Args:
            event: What happened.
            timestamp: When.
            phase: The phase it happened in, or None.
            details: What people read of it; by default the event's own sentence.

        Raises:
            InvalidSession: With everything that is wrong.
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
        """Make the entry of a caller's note, which is no event, whatever its action.

        Args:
            action: What happened.
            timestamp: When.
            phase: The phase it happened in, or None.
            details: More to say, or None.
            tokens: What it cost.

        Raises:
            InvalidSession: With everything that is wrong.
        """
        data: Mapping[str, Any] = NOTE if action in EVENTS else NO_DATA
        if tokens:
            data = {**data, "tokens": tokens}
        return cls(timestamp, action, phase, details, data=data)

    @property
    def event(self) -> HistoryEvent | None:
        """What happened, with its fields; None for a note."""
        return event_from(self.action, cast(EntryData, self.data))

    @property
    def event_type(self) -> type[HistoryEvent] | None:
        """The class of `event`, without reading its fields; None for a note."""
        return None if "note" in self.data else EVENTS.get(self.action)


def newest_events(
    history: Sequence[SessionHistory], *kinds: type[_Event]
) -> Iterator[tuple[int, _Event]]:
    """Go through the events of some kinds, newest first, each behind its position in the history.

    The entries of other kinds are not decoded.
    """
    for position in reversed(range(len(history))):
        entry = history[position]
        if entry.event_type in kinds and isinstance(event := entry.event, kinds):
            yield position, event


def _of_columns(kind: type[_Kind]) -> Callable[..., list[_Kind]]:
    """Return what makes values of a class whose fields are judged already, a field at a time.

    Its arguments: how many values, then for each field, in their order, what each of them has. An
    entry of a long history costs a quarter so of what it costs by the constructor, which judges it.
    """
    setters = [vars(kind)[one.name].__set__ for one in fields(cast(Any, kind))]

    def make(count: int, *columns: Iterable[Any]) -> list[_Kind]:
        made = list(map(object.__new__, repeat(kind, count)))
        for setter, column in zip(setters, columns, strict=True):
            deque(map(setter, made, column), maxlen=0)
        return made

    return make


sound_entries: Final = _of_columns(SessionHistory)
"""Make entries of values that the caller has judged, as a reader of many does."""
sound_artifacts: Final = _of_columns(SessionArtifact)
"""Make artifacts likewise."""
