"""Changes of a session's title, tags and metadata; omitted fields stay unchanged; pure."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from .history_events import SessionDescribed
from .session_checks import InvalidSession, with_type
from .session_data import (
    Metadata,
    frozen_metadata,
    sorted_tags,
    title_fault,
)


class Unchanged(Enum):
    """Marks an argument as "leave unchanged", where None would remove the value."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Description:
    """A session's title, tags and metadata.

    Attributes:
        title: Its title, or None.
        tags: Its tags, sorted.
        metadata: Its metadata.
    """

    title: str | None
    tags: tuple[str, ...]
    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionChange:
    """A change of a description; removals come first, so a field can be removed and set again.

    Attributes:
        title: The new title; None removes it.
        tags: The complete new tags; None leaves them unchanged.
        add_tags: Tags to add; existing ones are ignored.
        remove_tags: Tags to remove; missing ones are ignored.
        metadata: Fields to set; the others stay. Each value is replaced, not merged.
        remove_metadata: Names of fields to remove; missing ones are ignored.
    """

    title: str | Unchanged | None = UNCHANGED
    tags: Iterable[str] | None = None
    add_tags: Iterable[str] = ()
    remove_tags: Iterable[str] = ()
    metadata: Mapping[str, Any] | None = None
    remove_metadata: Iterable[str] = ()

    def of(self, before: Description) -> tuple[Description, list[str]]:
        """Return the description after the change, and every fault found in it."""
        title = before.title if isinstance(self.title, Unchanged) else self.title
        tags, faults = self._tags(before.tags)
        metadata, wrong = self._metadata(before.metadata)
        return Description(title, tags, metadata), title_fault(title) + faults + wrong

    def _tags(self, before: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
        found: list[tuple[str, ...]] = []
        faults: list[str] = []
        given = before if self.tags is None else self.tags
        for some in (given, self.add_tags, self.remove_tags):
            tags, wrong = sorted_tags(some)
            found.append(tags)
            faults += wrong
        stay, added, removed = found
        tags, wrong = sorted_tags({*stay, *added} - {*removed})
        return tags, faults or wrong

    def _metadata(self, before: Metadata) -> tuple[Metadata, list[str]]:
        given: object = {} if self.metadata is None else self.metadata
        if not isinstance(given, Mapping):
            return frozen_metadata(given)
        return frozen_metadata(merged(before, given, self.remove_metadata))


def merged(before: Mapping[str, Any], given: object, removed: Iterable[str]) -> dict[str, Any]:
    """Return the fields after removals and then settings; the others stay.

    Args:
        before: The current fields.
        given: The fields to set; each value is replaced, not merged.
        removed: One name, or several, of fields to remove; missing ones are ignored.

    Raises:
        InvalidSession: `given` is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise InvalidSession([f"values: expected a mapping, got {with_type(given)}"])
    names = {removed} if isinstance(removed, str) else set(removed)
    return {**{name: one for name, one in before.items() if name not in names}, **given}


def described_event(before: Description, after: Description) -> SessionDescribed | None:
    """Return the event of a change, or None if nothing changed.

    It has the new title and tags, but only the names of the metadata fields that changed: their
    values are in the session.
    """
    changed = [name for name in ("title", "tags") if getattr(before, name) != getattr(after, name)]
    fields = _as_json(after.metadata)
    former = _as_json(before.metadata)
    metadata_set = tuple([name for name, one in fields.items() if former.get(name) != one])
    metadata_removed = tuple([name for name in former if name not in fields])
    if metadata_set or metadata_removed:
        changed.append("metadata")
    if not changed:
        return None
    return SessionDescribed(
        changed=tuple(changed),
        title=after.title,
        tags=after.tags,
        metadata_set=metadata_set,
        metadata_removed=metadata_removed,
    )


def _as_json(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return each field's value as JSON, since 1, 1.0 and true are equal but not the same."""
    return {name: json.dumps(one) for name, one in metadata.items()}
