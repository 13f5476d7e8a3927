"""A session as JSON: the published schema takes each of them, and refuses what is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentforge_sessions.harness import (
    InvalidSession,
    SessionContext,
    SessionHistory,
    session_from_dict,
    session_schema,
)
from agentforge_sessions.harness.domain.history_events import (
    EVENTS,
    GateJudged,
    HistoryEvent,
    PersonAnswer,
    PhaseRequest,
)
from agentforge_sessions.harness.format.session_codec import encode_session
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.soak import examples
from tests.support.strategies import sessions

PUBLISHED: Final = Path(__file__).parents[3] / "docs" / "session.schema.json"
VALIDATOR: Final = Draft202012Validator(session_schema())
VALUES: Final[dict[Any, Any]] = {
    bool: st.booleans(),
    bool | None: st.none() | st.booleans(),
    int: st.integers(0, 99),
    int | None: st.none() | st.integers(0, 99),
    str: st.text("ab\n", max_size=3),
    str | None: st.none() | st.text("ab", max_size=3),
    float: st.floats(0, 10),
    float | None: st.none() | st.floats(0, 10),
    tuple[str, ...]: st.lists(st.text("ab", max_size=2), max_size=2).map(tuple),
    tuple[PersonAnswer, ...]: st.just((PersonAnswer(question_index=0, selected=("a",)),)),
    tuple[int, ...]: st.lists(st.integers(0, 9), max_size=2).map(tuple),
    tuple[PhaseRequest, ...]: st.just((PhaseRequest(id=1, kind="ask", prompt="?"),)),
    GateJudged | None: st.none() | st.just(GateJudged(gate="g", passed=True, counts={"passed": 1})),
}
events: Final = st.sampled_from(sorted(EVENTS)).flatmap(
    lambda name: st.builds(
        EVENTS[name],
        **{
            one.name: VALUES.get(one.type, st.dictionaries(st.text("ab"), st.integers(0, 9)))
            for one in fields(EVENTS[name])
        },
    )
)


def with_events(session: SessionContext, happened: list[HistoryEvent]) -> SessionContext:
    """Return the session with entries of events behind those that are no event."""
    kept = [replace(one, data={"note": True}) for one in session.history]
    session.history = kept + [
        SessionHistory.of(event, session.updated_at, session.current_phase) for event in happened
    ]
    return session


@settings(max_examples=examples(250))
@given(sessions(), st.lists(events, max_size=3))
def test_every_session_is_as_the_schema_says_and_comes_back(
    session: SessionContext, happened: list[HistoryEvent]
) -> None:
    session = with_events(session, happened)
    document = json.loads(json.dumps(session.to_dict()))
    VALIDATOR.validate(document)
    again = session_from_dict(document)
    assert encode_session(again) == encode_session(session)


def test_the_published_schema_is_that_of_the_program() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == session_schema()
    Draft202012Validator.check_schema(session_schema())


def a_document() -> dict[str, Any]:
    session = SessionContext.create("tdflow", "red", title="t", tags=["a"], now=START)
    session.add_artifact("a.py", "created", now=START)
    session.enter_phase("green", now=START)
    return session.to_dict()


WRONG: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "no id": lambda one: one.pop("session_id"),
    "no history": lambda one: one.pop("history"),
    "an empty history": lambda one: one.update(history=[]),
    "a path for an id": lambda one: one.update(session_id="../x"),
    "a parent that is none": lambda one: one.update(parent_id="x"),
    "a title of two lines": lambda one: one.update(title="a\nb"),
    "an empty title": lambda one: one.update(title=""),
    "a tag with a blank": lambda one: one.update(tags=["a b"]),
    "too many tags": lambda one: one.update(tags=[str(n) for n in range(33)]),
    "metadata in a list": lambda one: one.update(metadata=[1]),
    "too many fields": lambda one: one.update(metadata={str(n): n for n in range(65)}),
    "another state": lambda one: one.update(state="done"),
    "an end that has not come": lambda one: one.update(completed_at=one["created_at"]),
    "no end though it ended": lambda one: one.update(state="completed"),
    "a budget of nothing": lambda one: one["token_budget"].update(total_budget=0),
    "a broken number": lambda one: one.update(attempt_number=1.5),
    "a time without its offset": lambda one: one.update(updated_at="2026-03-01T09:30:00"),
    "a goal that is too long": lambda one: one.update(goal="x" * 4001),
    "a path that leads out": lambda one: one["artifacts"][0].update(path="a/../../b"),
    "a kind of artifact": lambda one: one["artifacts"][0].update(artifact_type="deleted"),
    "an entry without an action": lambda one: one["history"][0].pop("action"),
    "details that are no text": lambda one: one["history"][0].update(details=7),
    "data in a list": lambda one: one["history"][0].update(data=[1]),
    "a phase that is no text": lambda one: one["history"][1]["data"].update(to_phase=7),
}


READ_ALL_THE_SAME: Final = {
    *("an empty history", "a phase that is no text", "a time without its offset")
}
"""What only the schema refuses; a time without its offset is in UTC, as everywhere."""


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_session_is_refused_by_the_schema_and_not_read(wrong: str) -> None:
    document = a_document()
    VALIDATOR.validate(document)
    WRONG[wrong](document)
    assert list(VALIDATOR.iter_errors(document)) != []
    if wrong in READ_ALL_THE_SAME:
        assert session_from_dict(document).updated_at == START
    else:
        with pytest.raises(InvalidSession):
            session_from_dict(document)


def test_everything_that_is_wrong_with_a_document_is_said_at_once() -> None:
    document = a_document()
    document.update(schema_version="2.0", state="done", title="", revision=-1)
    document["token_budget"]["total_budget"] = 0
    document["history"][0]["action"] = ""
    del document["goal"]
    with pytest.raises(InvalidSession) as caught:
        session_from_dict(document)
    said = "; ".join(caught.value.faults)
    for part in (
        "schema_version: expected 1.n, found '2.0'",
        "state: expected one of active, paused, completed, aborted, found 'done'",
        "title: is empty",
        "revision: -1 is less than 0",
        "token_budget.total_budget: 0 is less than 1",
        "history[0].action: is empty",
        "goal: is missing",
    ):
        assert part in said
    assert len(caught.value.faults) == 7
    with pytest.raises(InvalidSession, match="expected the fields of a session, found a list"):
        session_from_dict([])


def test_a_copy_as_json_is_the_callers_own() -> None:
    session = SessionContext.create(session_id=sid("s"), now=START, metadata={"a": {"b": [1]}})
    told = session.to_dict()
    told["metadata"]["a"]["b"].append(2)
    told["history"].clear()
    assert session.to_dict()["metadata"] == {"a": {"b": [1]}}
    assert len(session.history) == 1
