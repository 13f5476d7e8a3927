"""User data of a session: title, tags, metadata, workflow state, parent; pure.

Each value is immutable, so what was checked stays valid. The harness stores and shows them and
bases no decision on them.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from .entry_data import DataBounds, EntryData, freeze
from .session_checks import name_fault, with_type

MAX_TAGS: Final = 32
"""Most tags of a session."""
MAX_TAG_CHARS: Final = 64
"""Longest tag."""
MAX_METADATA_BYTES: Final = 16 * 1024
"""Largest metadata, as JSON in UTF-8."""
MAX_WORKFLOW_STATE_BYTES: Final = 256 * 1024
"""Largest workflow state, as JSON in UTF-8; each save writes it."""
MAX_DIGITS: Final = 300
"""Most digits of a whole number in metadata or the workflow state."""


class Metadata(EntryData):
    """The metadata of a session: an immutable mapping of JSON values."""

    __slots__ = ()
    _refusal: ClassVar[str] = "metadata can't be changed in place; SessionManager.describe() does"


class WorkflowState(EntryData):
    """The workflow state of a session: an immutable mapping of JSON values."""

    __slots__ = ()
    _refusal: ClassVar[str] = (
        "a workflow state can't be changed in place; SessionManager.set_workflow_state() does"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLabels:
    """Descriptive fields of a new session; checked when the session is created.

    Attributes:
        title: Its name for people, or None.
        tags: Words to find it by.
        metadata: The user's own data.
        parent_id: The session that it was made from, or None.
    """

    title: str | None = None
    tags: Iterable[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parent_id: str | None = None


NO_METADATA: Final = Metadata()
NO_WORKFLOW_STATE: Final = WorkflowState()
METADATA_BOUNDS: Final = DataBounds(
    Metadata, depth=8, fields=64, key_chars=100, items=1000, values=4000, number=10**MAX_DIGITS - 1
)
WORKFLOW_STATE_BOUNDS: Final = DataBounds(
    WorkflowState,
    depth=12,
    fields=1000,
    key_chars=200,
    items=1000,
    values=50_000,
    number=10**MAX_DIGITS - 1,
)


def title_fault(value: object) -> list[str]:
    """Return what is wrong with a title: one line, not empty."""
    return [] if value is None else name_fault("title", value, optional=True)


def sorted_tags(given: object) -> tuple[tuple[str, ...], list[str]]:
    """Return the tags sorted and without duplicates, and every fault found in them."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        return (), [f"tags: expected several names, got {with_type(given)}"]
    tags = list(given)
    faults = [fault for tag in tags for fault in _tag_fault(tag)]
    if faults:
        return (), faults
    found = tuple(sorted(set(tags)))
    if len(found) > MAX_TAGS:
        return (), [f"tags: are {len(found):,}, {MAX_TAGS} are allowed"]
    return found, []


def _tag_fault(tag: object) -> list[str]:
    faults = name_fault("tags", tag, optional=False)
    if isinstance(tag, str) and not faults:
        if len(tag) > MAX_TAG_CHARS:
            faults = [f"tags: {tag[:20]}… has {len(tag)} characters, {MAX_TAG_CHARS} are allowed"]
        elif "," in tag or " " in tag or not tag.isprintable():
            faults = [f"tags: {tag!r} holds a blank, a comma or what can't be seen; it is one word"]
    return faults


def tags_fault(value: object) -> list[str]:
    """Return what is wrong with a session's tags, which are sorted and unique."""
    if value == () and type(value) is tuple:
        return []
    found, faults = sorted_tags(value)
    if not faults and (type(value) is not tuple or found != value):
        faults = ["tags: are not sorted, each once"]
    return faults


def _frozen(name: str, max_bytes: int, bounds: DataBounds, given: object) -> tuple[Any, list[str]]:
    if type(given) is bounds.kind:
        return given, []
    frozen, faults = freeze(given, name=name, bounds=bounds)
    if not faults and frozen:
        size = len(json.dumps(frozen, ensure_ascii=False, separators=(",", ":")).encode())
        if size > max_bytes:
            return bounds.kind(), [f"{name}: has {size:,} bytes as JSON, {max_bytes:,} are allowed"]
    return frozen, faults


frozen_metadata: Final = partial(_frozen, "metadata", MAX_METADATA_BYTES, METADATA_BOUNDS)
"""Return immutable metadata, and every fault found in it."""

SETTLED: Final[Mapping[str, Callable[[object], tuple[Any, list[str]]]]] = {
    "tags": sorted_tags,
    "metadata": frozen_metadata,
    "workflow_state": partial(
        _frozen, "workflow_state", MAX_WORKFLOW_STATE_BYTES, WORKFLOW_STATE_BOUNDS
    ),
}
"""Fields whose values are copied into immutable ones when they are set.

Each maps to a function that returns the immutable value and every fault found in it.
"""


def data_fault(name: str, value: object) -> list[str]:
    """Return what is wrong with a session's own data; frozen data is always valid."""
    return SETTLED[name](value)[1]
