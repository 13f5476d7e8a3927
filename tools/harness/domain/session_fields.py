"""The fields of a session and of its parts, in file order: one table for all of them.

The checks of `SessionContext`, the document readers, the published schema and the database rows
all derive from it; pure.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ...base.identifiers import is_session_id
from .session_checks import (
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    count_fault,
    id_fault,
    list_fault,
    name_fault,
    text_fault,
    time_fault,
    time_text,
    with_type,
)
from .session_data import (
    ENTRY_BOUNDS,
    METADATA_BOUNDS,
    NO_DATA,
    NO_METADATA,
    NO_WORKFLOW_STATE,
    WORKFLOW_STATE_BOUNDS,
    DataBounds,
    data_fault,
    tags_fault,
    thawed,
)
from .session_entries import ARTIFACT_TYPES
from .session_states import SessionState
from .token_budget import TokenBudget


class FieldKind(Enum):
    """The type of a field's value."""

    ID = "a session's id"
    NAME = "one line"
    TEXT = "text"
    PATH = "a path in the workspace"
    TAGS = "tags"
    COUNT = "a whole number"
    TIME = "a time"
    STATE = "a state"
    CHANGE = "what was done to a file"
    BUDGET = "a token budget"
    DATA = "what JSON has"
    ARTIFACTS = "artifacts"
    HISTORY = "entries"


class Field(NamedTuple):
    """A field of a session or of one of its parts.

    Attributes:
        name: Its name, in documents too.
        kind: The type of its value.
        required: Whether every document has it, even a minimal one.
        nullable: Whether it may be null.
        default: Its value in a document without it.
        least: The smallest whole number.
        most: The most characters, or None.
        bounds: The bounds of data.
        other: Another name for it in documents.
    """

    name: str
    kind: FieldKind
    required: bool = True
    nullable: bool = False
    default: Any = None
    least: int = 0
    most: int | None = None
    bounds: DataBounds | None = None
    other: str | None = None


def _optional(name: str, kind: FieldKind, most: int | None = None) -> Field:
    return Field(name, kind, required=False, nullable=True, most=most)


_PHASE: Final = _optional("phase", FieldKind.NAME, MAX_NAME_CHARS)

SESSION: Final = (
    Field("session_id", FieldKind.ID),
    _optional("parent_id", FieldKind.ID),
    _optional("title", FieldKind.NAME, MAX_NAME_CHARS),
    Field("tags", FieldKind.TAGS, required=False, default=()),
    Field("revision", FieldKind.COUNT, required=False, default=1),
    Field("state", FieldKind.STATE),
    _optional("workflow_type", FieldKind.NAME, MAX_NAME_CHARS),
    _optional("current_phase", FieldKind.NAME, MAX_NAME_CHARS),
    Field("attempt_number", FieldKind.COUNT, required=False, default=1, least=1),
    Field("created_at", FieldKind.TIME),
    Field("updated_at", FieldKind.TIME),
    _optional("completed_at", FieldKind.TIME),
    Field("token_budget", FieldKind.BUDGET),
    _optional("goal", FieldKind.TEXT, MAX_GOAL_CHARS),
    Field("metadata", FieldKind.DATA, required=False, default=NO_METADATA, bounds=METADATA_BOUNDS),
    Field(
        "workflow_state",
        FieldKind.DATA,
        required=False,
        default=NO_WORKFLOW_STATE,
        bounds=WORKFLOW_STATE_BOUNDS,
    ),
    Field("artifacts", FieldKind.ARTIFACTS, required=False, default=()),
    Field("history", FieldKind.HISTORY),
)
BUDGET: Final = (
    Field("total_budget", FieldKind.COUNT, least=1, other="total"),
    Field("tokens_used", FieldKind.COUNT, other="used"),
)
ARTIFACT: Final = (
    Field("path", FieldKind.PATH, most=MAX_PATH_CHARS),
    Field("artifact_type", FieldKind.CHANGE),
    Field("timestamp", FieldKind.TIME),
    _PHASE,
)
ENTRY: Final = (
    Field("timestamp", FieldKind.TIME),
    Field("action", FieldKind.NAME, most=MAX_NAME_CHARS),
    _PHASE,
    _optional("details", FieldKind.TEXT),
    Field("data", FieldKind.DATA, required=False, default=NO_DATA, bounds=ENTRY_BOUNDS),
)
CHOICES: Final[Mapping[FieldKind, tuple[str, ...]]] = {
    FieldKind.STATE: tuple(state.value for state in SessionState),
    FieldKind.CHANGE: ARTIFACT_TYPES,
}


def _id_fault(name: str, value: object) -> list[str]:
    if is_session_id(value):
        return []
    return [fault.replace("session_id:", f"{name}:", 1) for fault in id_fault(value)]


def _state_fault(value: object) -> list[str]:
    if isinstance(value, SessionState):
        return []
    return [f"state: expected a SessionState, got {with_type(value)}"]


def _budget_fault(value: object) -> list[str]:
    if isinstance(value, TokenBudget):
        return value.faults()
    return [f"token_budget: expected a TokenBudget, got {with_type(value)}"]


def _check_of(field: Field) -> Callable[[Any], list[str]]:
    """Return the check for a field's values; nulls of a nullable field never reach it."""
    name, kind = field.name, field.kind
    checks: Mapping[FieldKind, Callable[[Any], list[str]]] = {
        FieldKind.ID: partial(_id_fault, name),
        FieldKind.NAME: partial(name_fault, name, optional=False),
        FieldKind.TEXT: partial(text_fault, name, optional=False, limit=field.most),
        FieldKind.TAGS: tags_fault,
        FieldKind.COUNT: partial(count_fault, name, least=field.least),
        FieldKind.TIME: partial(time_fault, name),
        FieldKind.STATE: _state_fault,
        FieldKind.BUDGET: _budget_fault,
        FieldKind.DATA: partial(data_fault, name),
        FieldKind.ARTIFACTS: partial(list_fault, name),
        FieldKind.HISTORY: partial(list_fault, name),
    }
    return checks[kind]


_CHECKS: Final = tuple((one.nullable, _check_of(one)) for one in SESSION)
_BUDGET_AT: Final = [one.kind for one in SESSION].index(FieldKind.BUDGET)
field_values: Final = attrgetter(*[one.name for one in SESSION])
"""Return the values of a session's fields, in table order."""


def field_faults(values: Sequence[Any], judged: Sequence[object]) -> list[str]:
    """Return what is wrong with each field of a session on its own.

    Args:
        values: The values, as `field_values` returns them.
        judged: Values already found valid; a field that still holds the same object is not checked
            again, except the budget, the one value that can change in place.
    """
    faults: list[str] = []
    for at, ((nullable, judge), value) in enumerate(zip(_CHECKS, values, strict=True)):
        if judged and value is judged[at] and at != _BUDGET_AT:
            continue
        if value is not None or not nullable:
            faults += judge(value)
    return faults


def as_json(field: Field, value: Any) -> Any:
    """Return a new copy of a field's value in JSON's types."""
    return None if value is None else _AS_JSON.get(field.kind, _same)(value)


def as_column(field: Field, value: Any) -> Any:
    """Return a field's value for a database column."""
    if field.kind is FieldKind.STATE:
        return value.value
    if field.kind is FieldKind.COUNT:
        return int(value)
    return list(value) if field.kind is FieldKind.TAGS else value


def _same(value: Any) -> Any:
    return value


def _budget(value: TokenBudget) -> dict[str, int]:
    return {
        "total_budget": value.total_budget,
        "tokens_used": value.tokens_used,
        "remaining": value.tokens_remaining,
    }


def _all(values: list[Any]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in values]


_AS_JSON: Final[Mapping[FieldKind, Callable[[Any], Any]]] = {
    FieldKind.TAGS: list,
    FieldKind.TIME: time_text,
    FieldKind.STATE: lambda state: state.value,
    FieldKind.BUDGET: _budget,
    FieldKind.DATA: thawed,
    FieldKind.ARTIFACTS: _all,
    FieldKind.HISTORY: _all,
}
