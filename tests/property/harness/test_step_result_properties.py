"""Results of steps of generated types are read back as they were; hostile records are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from datetime import UTC, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentforge_sessions.harness.steps.codec import check_kind, decode, encode
from agentforge_sessions.harness.steps.errors import ResultUnreadable

T = TypeVar("T")
WORK = Path("/srv/session/workspace")


class Color(Enum):
    RED = 1
    BLUE = "b"


@attrs.frozen
class Box(Generic[T]):
    content: T
    more: tuple[T, ...] = ()


class Point(NamedTuple):
    x: int
    y: float


class Model(BaseModel):
    name: str
    sizes: list[int]
    inner: Model | None = None


Typed = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and its values."""

ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))]) | st.timezones()
TEXTS = st.text(st.characters(codec=None), max_size=8)
PATHS = st.lists(st.sampled_from(["a", "b.md", "..", "ä"]), min_size=1).map(
    lambda parts: Path(*parts)
)
MODELS = st.builds(Model, name=st.text(max_size=5), sizes=st.lists(st.integers(), max_size=3))
LEAVES: Sequence[Typed] = (
    (int, st.integers()),
    (str, TEXTS),
    (float, st.floats(allow_nan=False) | st.integers()),
    (bool, st.booleans()),
    (None, st.none()),
    (bytes, st.binary(max_size=8)),
    (Path, PATHS | PATHS.map(lambda path: WORK / path)),
    (Color, st.sampled_from(Color)),
    (Point, st.builds(Point, st.integers(), st.floats(allow_nan=False))),
    (Model, MODELS | st.builds(Model, name=st.just("a"), sizes=st.just([1]), inner=MODELS)),
)


def _standard() -> Sequence[Typed]:
    from datetime import date, datetime, time
    from decimal import Decimal
    from uuid import UUID

    return (
        (datetime, st.datetimes(timezones=ZONES)),
        (date, st.dates()),
        (time, st.times()),
        (timedelta, st.timedeltas()),
        (Decimal, st.decimals(allow_nan=False)),
        (UUID, st.uuids()),
    )


def _wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def of(typed: Typed) -> st.SearchStrategy[Typed]:
        kind, values = typed
        few = st.lists(values, max_size=3)
        pairs = st.lists(st.tuples(TEXTS, values), max_size=3).map(dict)
        made = make_dataclass("Made", [("first", kind), ("rest", list[kind])])
        numbered = st.dictionaries(st.integers(), values, max_size=3)
        return st.sampled_from(
            [
                (list[kind], few),
                (Sequence[kind], few | few.map(tuple)),
                (tuple[kind, ...], few.map(tuple)),
                (tuple[kind, int], st.tuples(values, st.integers())),
                (dict[str, kind], pairs),
                (Mapping[str, kind], pairs),
                (dict[int, kind], numbered),
                (kind | None if kind else kind, values | st.none()),
                (Box[kind], st.builds(Box, values, few.map(tuple))),
                (list[Box[kind] | Point | str], st.lists(st.builds(Box, values) | TEXTS)),
                (made, st.builds(made, values, few)),
            ]
        )

    return inner.flatmap(of)


KINDS: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from([*LEAVES, *_standard()]), _wider, max_leaves=4
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("$"), inner),
)
TAGS = st.sampled_from(
    [
        *("tuple", "set", "frozenset", "dict", "float", "bytes", "datetime", "date", "time"),
        *("microseconds", "decimal", "uuid", "path", "artifact", "other", ""),
        *("class Box", "class Point", "class Model", "class Color", "class Made", "class object"),
    ]
)
RECORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "more", "x", "y", "first", "$"]), inner)
        | st.builds(lambda tag, node: {"$": tag, "v": node}, TAGS, inner)
    ),
)


@settings(max_examples=150, deadline=None)
@given(KINDS.flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1])))
def test_a_result_of_any_type_is_read_back_as_it_was(typed: tuple[Any, object]) -> None:
    kind, value = typed
    kind = type(None) if kind is None else kind
    check_kind(kind)
    codec, body = encode(value, kind, workspace=WORK)
    found = decode(codec, body, kind, workspace=WORK)
    assert found == value
    assert type(found) is type(value)
    assert encode(found, kind, workspace=WORK) == (codec, body)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_json_values_are_read_back_with_their_types(value: object) -> None:
    found = decode(*encode(value, None, workspace=None), None, workspace=None)
    assert repr(found) == repr(value)


@settings(max_examples=150, deadline=None)
@given(RECORDS, KINDS)
def test_any_record_is_a_value_of_its_type_or_refused(node: object, typed: Typed) -> None:
    body = json.dumps(node).encode()
    try:
        found = decode("json", body, typed[0], workspace=WORK)
    except ResultUnreadable:
        return
    encode(found, typed[0], workspace=WORK)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), KINDS)
def test_any_bytes_are_a_value_or_refused(body: bytes, typed: Typed) -> None:
    try:
        decode("json", body, typed[0], workspace=WORK)
    except ResultUnreadable:
        return
