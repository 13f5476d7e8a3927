"""The JSON Schema of a session as JSON: made of the domain's bounds, events and their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ..domain.entry_data import MAX_KEY_CHARS
from ..domain.history_events import EVENTS, GateJudged, PersonAnswer
from ..domain.session_checks import MAX_COUNT, MAX_GOAL_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS
from ..domain.session_data import (
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TITLE_CHARS,
    METADATA_BOUNDS,
    WORKFLOW_STATE_BOUNDS,
)
from ..domain.session_entries import ARTIFACT_TYPES
from ..domain.session_states import SessionState

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID: Final = "urn:agentforge:session:1.1"
_SESSION_ID: Final = "^session_[0-9]{8}_[0-9]{6}_([0-9]{6}|[0-9a-f]{8})$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?\+00:00$"
_LINE: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"
_TAG: Final = r"^[^\u0000-\u0020\u007f-\u00a0\u2028\u2029,]+$"
_Schema = dict[str, Any]


def session_schema() -> _Schema:
    """Return the JSON Schema (draft 2020-12) of what `SessionContext.to_dict` returns.

    More fields than these may stand beside them, as in `agentforge show --json`, and newer versions
    add some. What a schema can't say (the order of times, the sizes of data, no field but once) is
    checked by `session_from_dict`.
    """
    ended = [state.value for state in SessionState if state.is_terminal]
    return {
        "$schema": DIALECT,
        "$id": SCHEMA_ID,
        "title": "A session of AgentForge Harness",
        "type": "object",
        "required": list(_PROPERTIES),
        "properties": _PROPERTIES,
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
            "artifact": _ARTIFACT,
            "entry": _ENTRY,
            **{kind.__name__: _value_schema(kind) for kind in (GateJudged, PersonAnswer)},
            **{f"event_{name}": _value_schema(kind) for name, kind in EVENTS.items()},
        },
    }


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}


def _optional(schema: _Schema) -> _Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _count(least: int) -> _Schema:
    return {"type": "integer", "minimum": least, "maximum": MAX_COUNT}


def _data(bounds: Any) -> _Schema:
    return {
        "type": "object",
        "maxProperties": bounds.fields,
        "propertyNames": {"maxLength": bounds.key_chars},
    }


def _list_of(item: _Schema) -> _Schema:
    return {"type": "array", "items": item}


_PROPERTIES: Final[_Schema] = {
    "schema_version": {"type": "string", "pattern": r"^1\.[1-9][0-9]*$"},
    "session_id": _ref("session_id"),
    "parent_id": _optional(_ref("session_id")),
    "title": _optional(
        {"type": "string", "minLength": 1, "maxLength": MAX_TITLE_CHARS, "pattern": _LINE}
    ),
    "tags": {
        "type": "array",
        "maxItems": MAX_TAGS,
        "uniqueItems": True,
        "items": {"type": "string", "maxLength": MAX_TAG_CHARS, "pattern": _TAG},
    },
    "revision": _count(0),
    "state": {"enum": [state.value for state in SessionState]},
    "workflow_type": _optional(_ref("name")),
    "current_phase": _optional(_ref("name")),
    "attempt_number": _count(1),
    "created_at": _ref("time"),
    "updated_at": _ref("time"),
    "completed_at": _optional(_ref("time")),
    "token_budget": {
        "type": "object",
        "required": ["total_budget", "tokens_used", "remaining"],
        "properties": {
            "total_budget": _count(1),
            "tokens_used": _count(0),
            "remaining": {"type": "integer"},
        },
    },
    "goal": _optional({"type": "string", "maxLength": MAX_GOAL_CHARS}),
    "metadata": _data(METADATA_BOUNDS),
    "workflow_state": _data(WORKFLOW_STATE_BOUNDS),
    "artifacts": _list_of(_ref("artifact")),
    "history": {**_list_of(_ref("entry")), "minItems": 1},
}
_ARTIFACT: Final[_Schema] = {
    "type": "object",
    "required": ["path", "artifact_type", "timestamp", "phase"],
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PATH_CHARS,
            "pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))[^\u0000]*$",
        },
        "artifact_type": {"enum": list(ARTIFACT_TYPES)},
        "timestamp": _ref("time"),
        "phase": _optional(_ref("name")),
    },
}
_ENTRY: Final[_Schema] = {
    "type": "object",
    "required": ["timestamp", "action", "phase", "details", "data"],
    "properties": {
        "timestamp": _ref("time"),
        "action": _ref("name"),
        "phase": _optional(_ref("name")),
        "details": {"type": ["string", "null"]},
        "data": {"type": "object", "propertyNames": {"maxLength": MAX_KEY_CHARS}},
    },
    "allOf": [
        {
            # A caller's note with an event's name has none of its fields, nor has an empty entry.
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
        "properties": {one.name: dict(_TYPES[one.type]) for one in fields(kind)},
    }


_TYPES: Final[Mapping[Any, _Schema]] = {
    bool: {"type": "boolean"},
    bool | None: {"type": ["boolean", "null"]},
    int: {"type": "integer"},
    int | None: {"type": ["integer", "null"]},
    str: {"type": "string"},
    str | None: {"type": ["string", "null"]},
    float: {"type": "number"},
    float | None: {"type": ["number", "null"]},
    tuple[str, ...]: _list_of({"type": "string"}),
    tuple[PersonAnswer, ...]: _list_of(_ref("PersonAnswer")),
    Mapping[str, int]: {"type": "object", "additionalProperties": {"type": "integer"}},
    GateJudged | None: _optional(_ref("GateJudged")),
}
"""The schema of a field, by its annotation."""
