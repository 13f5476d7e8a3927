"""User data of a session, and the bounded, immutable values of which it consists; pure.

Each value is immutable, so what was checked stays valid. The harness stores and shows them and
bases no decision on them.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self

from .session_checks import MAX_COUNT, name_fault, text_fault, with_type

MAX_DEPTH: Final = 8
"""Deepest nesting of mappings and lists."""
MAX_FIELDS: Final = 64
"""Most fields of one mapping."""
MAX_KEY_CHARS: Final = 100
"""Longest field name; YAML allows 1,024 characters, escapes included."""
MAX_ITEMS: Final = 1000
"""Most items of one list."""


class EntryData(dict[str, Any]):
    """An immutable mapping of strings, numbers, booleans, None, tuples and such mappings.

    A `dict`, so that `json` and `dataclasses.asdict` accept it as it is; every change is refused.
    """

    __slots__ = ()
    _refusal: ClassVar[str] = "the data of a history's entry can't be changed"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(self._refusal)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type["EntryData"], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


NO_DATA: Final = EntryData()


def thawed(data: Any) -> Any:
    """Return data in JSON's own types: mutable dicts and lists."""
    if isinstance(data, Mapping):
        return {name: thawed(one) for name, one in data.items()}
    if isinstance(data, tuple | list):
        return [thawed(one) for one in data]
    return data


class DataBounds(NamedTuple):
    """Upper bounds of some data.

    Attributes:
        kind: The class that its mappings become.
        depth: Deepest nesting of mappings and lists.
        fields: Most fields of one mapping.
        key_chars: The longest field name.
        items: Most items of one list.
        values: Most fields and items in all.
        number: The largest whole number.
    """

    kind: type[EntryData]
    depth: int
    fields: int
    key_chars: int
    items: int
    values: int
    number: int


ENTRY_BOUNDS: Final = DataBounds(
    EntryData, MAX_DEPTH, MAX_FIELDS, MAX_KEY_CHARS, MAX_ITEMS, values=MAX_COUNT, number=MAX_COUNT
)
"""Bounds of a history entry's data."""
_Place = tuple[str, ...]
"""The path to a value in the data; joined only for a fault's message."""


def freeze(
    value: object, *, name: str = "data", bounds: DataBounds = ENTRY_BOUNDS
) -> tuple[EntryData, list[str]]:
    """Return an immutable copy of the data, and every fault found in it.

    Args:
        value: The data.
        name: Its name in faults.
        bounds: Its upper bounds.
    """
    if not isinstance(value, Mapping):
        return bounds.kind(), [f"{name}: expected a mapping, got {with_type(value)}"]
    freezer = _Freezer(bounds)
    frozen = freezer.mapping((name,), value)
    return (bounds.kind() if freezer.faults else frozen), freezer.faults


class _Freezer:
    """Builds immutable data, one value at a time."""

    __slots__ = ("_bounds", "_left", "faults")

    def __init__(self, bounds: DataBounds) -> None:
        self._bounds = bounds
        self._left = bounds.values
        self.faults: list[str] = []

    def _frozen(self, place: _Place, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                self.faults += text_fault("".join(place), value, optional=False, limit=None)
        elif kind is int:
            if not -self._bounds.number <= value <= self._bounds.number:
                self._fault(place, f"is more than {_number(self._bounds.number)}")
        elif kind is float:
            if not math.isfinite(value):
                self._fault(place, f"{value} is no number")
        elif value is None or kind is bool:
            pass
        elif len(place) > self._bounds.depth:
            self._fault(place, f"is nested deeper than {self._bounds.depth}")
        elif kind is dict or isinstance(value, Mapping):
            return self.mapping(place, value)
        elif kind is list or kind is tuple:
            return self._list(place, value)
        else:
            self._fault(place, f"{with_type(value)} is nothing that JSON has")
        return value

    def _list(self, place: _Place, value: Any) -> Any:
        if not self._room(place, len(value), self._bounds.items, "items"):
            return value
        return tuple([self._frozen((*place, f"[{at}]"), one) for at, one in enumerate(value)])

    def mapping(self, place: _Place, value: Mapping[Any, Any]) -> EntryData:
        """Return an immutable mapping; its faults are added to `faults`."""
        bounds = self._bounds
        found: dict[str, Any] = {}
        if not self._room(place, len(value), bounds.fields, "fields"):
            return bounds.kind(found)
        for key, one in value.items():
            if type(key) is not str:
                self._fault(place, f"{with_type(key)} is no name of a field")
            elif len(key) > bounds.key_chars or not key.isascii():
                name = f"{''.join(place)}: a field's name"
                self.faults += text_fault(name, key, optional=False, limit=bounds.key_chars)
            if one is None or one is True or one is False:
                found[key] = one
            else:
                found[key] = self._frozen((*place, f".{key}"), one)
        return bounds.kind(found)

    def _room(self, place: _Place, count: int, most: int, what: str) -> bool:
        """Count the values of a mapping or list; return whether it may hold that many."""
        if count > most:
            self._fault(place, f"has {count:,} {what}, {most:,} are allowed")
            return False
        before = self._left
        self._left -= count
        if self._left < 0 <= before:
            self._fault(place[:1], f"holds more than {self._bounds.values:,} values")
        return self._left >= 0

    def _fault(self, place: _Place, text: str) -> None:
        self.faults.append(f"{''.join(place)}: {text}")


def _number(most: int) -> str:
    return str(most) if most <= MAX_COUNT else f"a number of {len(str(most))} digits"


# Annotations are evaluated here: as strings, each field's would be compiled at import.


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


class SessionLabels(NamedTuple):
    """Descriptive fields of a new session; checked when the session is created.

    Attributes:
        title: Its name for people, or None.
        tags: Words to find it by.
        metadata: The user's own data.
        parent_id: The session that it was made from, or None.
    """

    title: str | None = None
    tags: Iterable[str] = ()
    metadata: Mapping[str, Any] = Metadata()
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
