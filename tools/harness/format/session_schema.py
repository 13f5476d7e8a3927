"""The JSON Schema of sessions, derived from the domain's bounds, events and fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, Final, get_args, get_origin

from ..domain.history_events import EVENTS, GateJudged, PersonAnswer, PhaseRequest
from ..domain.session_checks import MAX_COUNT, MAX_NAME_CHARS, MAX_PATH_CHARS
from ..domain.session_data import MAX_TAG_CHARS, MAX_TAGS
from ..domain.session_fields import ARTIFACT, BUDGET, CHOICES, ENTRY, SESSION, Field, FieldKind
from ..domain.session_states import SessionState

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID: Final = "urn:agentforge:session:1.1"
_SESSION_ID: Final = "^session_[0-9]{8}_[0-9]{6}_([0-9]{6}|[0-9a-f]{8})$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?\+00:00$"
_LINE: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"
_TAG: Final = r"^[^\u0000-\u0020\u007f-\u00a0\u2028\u2029,]+$"
_PATH: Final = r"^(?!/)(?!(.*/)?\.\.(/|$))[^\u0000]*$"
_Schema = dict[str, Any]


def session_schema() -> _Schema:
    """Return the JSON Schema (draft 2020-12) of what `SessionContext.to_dict` returns.

    Additional fields are allowed, as in `agentforge show --json`, and newer versions add some.
    Rules that a schema can't express (the order of times, the sizes of data, unique fields) are
    checked by `session_from_dict`.
    """
    ended = [state.value for state in SessionState if state.is_terminal]
    return {
        "$schema": DIALECT,
        "$id": SCHEMA_ID,
        "title": "A session of AgentForge Harness",
        **_document_schema(),
        "if": {"properties": {"state": {"enum": ended}}},
        "then": {"properties": {"completed_at": {"type": "string"}}},
        "else": {"properties": {"completed_at": {"type": "null"}}},
        "$defs": {
            "session_id": {"type": "string", "pattern": _SESSION_ID},
            "time": {"type": "string", "format": "date-time", "pattern": _TIME},
            "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_NAME_CHARS,
                "pattern": _LINE,
            },
            "artifact": _table_schema(ARTIFACT),
            "entry": _entry_schema(),
            **{
                kind.__name__: _value_schema(kind)
                for kind in (GateJudged, PersonAnswer, PhaseRequest)
            },
            **{f"event_{name}": _value_schema(kind) for name, kind in EVENTS.items()},
        },
    }


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}


def _optional(schema: _Schema) -> _Schema:
    if list(schema) == ["type"]:
        return {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _list_of(item: _Schema) -> _Schema:
    return {"type": "array", "items": item}


_KINDS: Final[Mapping[FieldKind, _Schema]] = {
    FieldKind.ID: _ref("session_id"),
    FieldKind.NAME: _ref("name"),
    FieldKind.TEXT: {"type": "string"},
    FieldKind.PATH: {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_PATH_CHARS,
        "pattern": _PATH,
    },
    FieldKind.TIME: _ref("time"),
    FieldKind.TAGS: {
        "type": "array",
        "maxItems": MAX_TAGS,
        "uniqueItems": True,
        "items": {"type": "string", "maxLength": MAX_TAG_CHARS, "pattern": _TAG},
    },
    **{kind: {"enum": list(words)} for kind, words in CHOICES.items()},
    FieldKind.ARTIFACTS: _list_of(_ref("artifact")),
    FieldKind.HISTORY: {**_list_of(_ref("entry")), "minItems": 1},
}


def _field_schema(field: Field) -> _Schema:
    """Return the schema of a field of the table."""
    if field.kind is FieldKind.COUNT:
        return {"type": "integer", "minimum": field.least, "maximum": MAX_COUNT}
    if field.kind is FieldKind.BUDGET:
        return _budget_schema()
    if field.bounds is not None:
        names = {"maxLength": field.bounds.key_chars}
        return {"type": "object", "maxProperties": field.bounds.fields, "propertyNames": names}
    found = dict(_KINDS[field.kind])
    if field.kind is FieldKind.TEXT and field.most is not None:
        found["maxLength"] = field.most
    return _optional(found) if field.nullable else found


def _document_schema() -> _Schema:
    found = _table_schema(SESSION)
    version = {"schema_version": {"type": "string", "pattern": r"^1\.[1-9][0-9]*$"}}
    return {
        "type": "object",
        "required": [*version, *found["required"]],
        "properties": version | found["properties"],
    }


def _budget_schema() -> _Schema:
    found = _table_schema(BUDGET)
    found["required"].append("remaining")
    found["properties"]["remaining"] = {"type": "integer"}
    return found


def _table_schema(table: tuple[Field, ...]) -> _Schema:
    return {
        "type": "object",
        "required": [one.name for one in table],
        "properties": {one.name: _field_schema(one) for one in table},
    }


def _entry_schema() -> _Schema:
    """Return the schema of an entry; an event's data has the event's fields."""
    return {
        **_table_schema(ENTRY),
        "allOf": [
            {
                # A caller's note with an event's name has none of its fields, nor has an empty
                # entry.
                "if": {
                    "properties": {
                        "action": {"const": name},
                        "data": {"minProperties": 1, "not": {"required": ["note"]}},
                    }
                },
                "then": {"properties": {"data": _ref(f"event_{name}")}},
            }
            for name in EVENTS
        ],
    }


def _value_schema(kind: type) -> _Schema:
    """Return the schema of an event's data, or of a part of it; newer versions add fields."""
    told = (kind.__doc__ or "").partition("\n")[0]
    return {
        "description": told,
        "type": "object",
        "properties": {one.name: _type_schema(one.type) for one in fields(kind)},
    }


def _type_schema(annotation: Any) -> _Schema:
    """Return the schema of a field from its annotation, the only description of event fields."""
    if annotation in _JSON_TYPES:
        return {"type": _JSON_TYPES[annotation]}
    inner = get_args(annotation)
    if NoneType in inner:
        return _optional(_type_schema(inner[0]))
    if get_origin(annotation) is tuple:
        return _list_of(_type_schema(inner[0]))
    if inner:
        return {"type": "object", "additionalProperties": _type_schema(inner[1])}
    return _ref(annotation.__name__)


_JSON_TYPES: Final = {bool: "boolean", int: "integer", str: "string", float: "number"}
