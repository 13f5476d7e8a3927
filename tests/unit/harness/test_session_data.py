"""What a session carries for its user: checked, never changed in place, changed in one save."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    InvalidStateTransition,
    NoActiveSession,
    SessionContext,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import SessionDescribed
from agentforge_sessions.harness.domain.session_data import (
    MAX_METADATA_BYTES,
    MAX_TAGS,
    MAX_WORKFLOW_STATE_BYTES,
)
from agentforge_sessions.harness.format.session_codec import encode_session
from tests.support.clock import START
from tests.support.ids import sid


def create(**given: Any) -> SessionContext:
    return SessionContext.create(session_id=sid("s"), now=START, **given)


# ------------------------------------------------------------------------------------- what it is


def test_a_session_without_any_of_it_is_written_as_ever() -> None:
    text = encode_session(create()).decode()
    assert "schema_version: 1\n" in text
    assert not {"title:", "tags:", "metadata:", "workflow_state:", "parent_id:"} & {
        line.split(" ")[0] for line in text.splitlines()
    }


def test_who_it_is_stands_first_and_its_data_behind_the_goal() -> None:
    text = encode_session(
        create(
            title="Nightly run",
            tags=["b", "a"],
            metadata={"ticket": 7},
            workflow_state={"step": 1},
            parent_id=sid("parent"),
            goal="g",
        )
    ).decode()
    names = [line.split(":")[0] for line in text.splitlines() if line[0].isalpha()]
    assert names[:5] == ["schema_version", "session_id", "parent_id", "title", "tags"]
    assert names[-6:-1] == ["goal", "metadata", "workflow_state", "artifacts", "history"]
    assert names[-1] == "digest"
    assert 'schema_version: "1.1"\n' in text
    assert "tags:\n  - a\n  - b\n" in text


def test_tags_are_sorted_each_once() -> None:
    assert create(tags={"b", "a"}).tags == ("a", "b")
    assert create(tags=["x", "x"]).tags == ("x",)


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(InvalidSession) as caught:
        create(
            title="two\nlines",
            tags=["a b", "", 7],
            metadata={"day": START, "nan": float("nan")},
            workflow_state=[1],
            parent_id="../x",
        )
    said = "; ".join(caught.value.faults)
    for part in (
        "title: 'two\\nlines' holds a control character",
        "tags: 'a b' holds a blank",
        "tags: is empty",
        "tags: expected text, got int 7",
        "metadata.day: datetime",
        "metadata.nan: nan is no number",
        "workflow_state: expected a mapping, got list",
        "parent_id: '../x' is not a session's id",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"title": ""}, "title: is empty"),
        ({"title": "x" * 201}, "title: has 201 characters"),
        ({"tags": "abc"}, "tags: expected several names"),
        ({"tags": ["x" * 65]}, "has 65 characters, 64 are allowed"),
        ({"tags": ["a,b"]}, "holds a blank, a comma"),
        ({"tags": ["a\u202eb"]}, "what can't be seen"),
        ({"tags": [str(n) for n in range(MAX_TAGS + 1)]}, "are 33, 32 are allowed"),
        ({"metadata": {7: 1}}, "is no name of a field"),
        ({"metadata": {"a": {1, 2}}}, "is nothing that JSON has"),
        ({"metadata": {"a": "\ud800"}}, "lone surrogate"),
        ({"metadata": {"a": 10**300}}, "a number of 300 digits"),
        ({"metadata": {"a": "x" * MAX_METADATA_BYTES}}, "16,384 are allowed"),
        ({"metadata": {str(n): n for n in range(65)}}, "has 65 fields, 64 are allowed"),
        ({"workflow_state": {"a": "x" * MAX_WORKFLOW_STATE_BYTES}}, "262,144 are allowed"),
        ({"workflow_state": {"a": [[0] * 1000] * 1000}}, "holds more than 50,000 values"),
        ({"parent_id": sid("s")}, "is the session itself"),
    ],
)
def test_what_is_out_of_bounds_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidSession, match=fault):
        create(**given)


def test_data_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(InvalidSession, match="nested deeper than 8"):
        create(metadata=endless)


def test_data_as_deep_as_it_may_be_comes_back() -> None:
    deep: Any = 1
    for _ in range(12):
        deep = {"a": deep}
    session = create(workflow_state=deep)
    assert json.loads(json.dumps(session.workflow_state)) == deep
    with pytest.raises(InvalidSession, match="deeper than 12"):
        create(workflow_state={"a": deep})


# --------------------------------------------------------------------- nothing slips in unchecked


def test_what_a_caller_changes_afterwards_is_not_in_the_session() -> None:
    given: dict[str, Any] = {"list": [1], "map": {"a": 1}}
    session = create(metadata=given, workflow_state=given)
    given["list"].append(object())
    given["map"]["b"] = object()
    assert session.metadata == session.workflow_state == {"list": (1,), "map": {"a": 1}}


@pytest.mark.parametrize("name", ["metadata", "workflow_state"])
def test_data_is_not_changed_in_place(name: str) -> None:
    data = getattr(create(**{name: {"a": {"b": 1}}}), name)
    changes: list[Callable[[], object]] = [
        lambda: data.update(a=1),
        lambda: data["a"].pop("b"),
        lambda: data.setdefault("c", 1),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="can't be changed in place"):
            change()
    for same in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):  # our own
        assert same == data
        with pytest.raises(TypeError):
            same["x"] = 1


def test_what_is_set_by_hand_is_checked_before_it_is_saved(manager: SessionManager) -> None:
    session = manager.create()
    session.metadata = {"a": {1}}
    with pytest.raises(InvalidSession, match=r"metadata\.a: set"):
        manager.save()
    session.metadata = {"a": [1]}
    session.tags = ["b", "a"]  # type: ignore[assignment]
    manager.save()
    assert manager.reload().metadata == {"a": (1,)}
    assert session.tags == ("a", "b")


def test_a_workflow_state_is_not_taken_for_metadata_unchecked() -> None:
    session = create(workflow_state={"a": "x" * MAX_METADATA_BYTES})
    with pytest.raises(InvalidSession, match="16,384 are allowed"):
        create(metadata=session.workflow_state)


# --------------------------------------------------------------------------------- changing it

CARRIED: Final[dict[str, Any]] = {
    "title": "first",
    "tags": ["a", "b"],
    "metadata": {"keep": 1, "drop": 2, "set": {"old": True}},
}


def test_what_is_left_out_of_a_description_stays(manager: SessionManager) -> None:
    session = manager.create(**CARRIED)
    manager.describe(title="second")
    manager.describe(add_tags=["c"], remove_tags=["a", "unknown"])
    manager.describe(metadata={"set": [1]}, remove_metadata=["drop", "unknown"])
    assert (session.title, session.tags) == ("second", ("b", "c"))
    assert session.metadata == {"keep": 1, "set": (1,)}
    manager.describe(title=None, tags=["z"])
    assert (session.title, session.tags) == (None, ("z",))
    manager.describe(metadata={"new": None}, remove_metadata=session.metadata)
    assert session.metadata == {"new": None}
    assert SessionStore(manager.store.base_path).load(session.session_id) == session


def test_a_description_is_one_save_with_one_event(manager: SessionManager) -> None:
    session = manager.create(**CARRIED)
    manager.describe(title="t", add_tags=["c"], metadata={"n": 1}, remove_metadata=["drop"])
    assert session.revision == 2
    assert len(session.history) == 2
    assert session.history[-1].event == SessionDescribed(
        changed=("title", "tags", "metadata"),
        title="t",
        tags=("a", "b", "c"),
        metadata_set=("n",),
        metadata_removed=("drop",),
    )
    assert session.history[-1].details == (
        "title: t; tags: a, b, c; metadata set: n; metadata removed: drop"
    )


def test_a_description_that_changes_nothing_saves_nothing(manager: SessionManager) -> None:
    session = manager.create(**CARRIED)
    manager.describe()
    manager.describe(**CARRIED)
    manager.describe(remove_tags=["unknown"], remove_metadata=["unknown"])
    assert (session.revision, len(session.history)) == (1, 1)


def test_a_value_that_is_equal_and_not_the_same_is_a_change(manager: SessionManager) -> None:
    session = manager.create(metadata={"a": 1}, workflow_state={"a": 1})
    manager.describe(metadata={"a": True})
    manager.set_workflow_state({"a": 1.0})
    assert session.revision == 3
    assert repr(manager.reload().metadata) == "{'a': True}"
    assert repr(session.workflow_state) == "{'a': 1.0}"


def test_a_wrong_description_changes_nothing(manager: SessionManager) -> None:
    session = manager.create(**CARRIED)
    before = copy.deepcopy(session)
    with pytest.raises(InvalidSession) as caught:
        manager.describe(title="", add_tags=["a b"], metadata={"x": {1}})
    assert len(caught.value.faults) == 3
    with pytest.raises(InvalidSession, match="metadata: expected a mapping"):
        manager.describe(metadata=[1])  # type: ignore[arg-type]
    assert session == before


def test_a_workflow_state_is_replaced_or_merged_and_leaves_no_entry(
    manager: SessionManager,
) -> None:
    session = manager.create(workflow_state={"a": 1})
    manager.set_workflow_state({"b": {"c": 1}})
    assert session.workflow_state == {"b": {"c": 1}}
    manager.update_workflow_state({"d": 2}, remove=["b", "unknown"])
    assert session.workflow_state == {"d": 2}
    manager.update_workflow_state({"d": 2})
    assert (session.revision, len(session.history)) == (3, 1)
    with pytest.raises(InvalidSession, match="expected a mapping"):
        manager.update_workflow_state([1])  # type: ignore[arg-type]
    manager.set_workflow_state({})
    assert b"workflow_state" not in encode_session(manager.reload())


def test_a_session_that_has_ended_is_described_and_changed_no_more(
    manager: SessionManager,
) -> None:
    session = manager.create(**CARRIED)
    manager.complete()
    ended = session.completed_at
    manager.describe(title="x", add_tags=["good"])
    assert manager.reload().tags == ("a", "b", "good")
    assert (session.completed_at, session.revision) == (ended, 3)
    with pytest.raises(InvalidStateTransition, match="change the workflow state of session"):
        manager.set_workflow_state({"a": 1})
    with pytest.raises(InvalidStateTransition, match="change the workflow state of session"):
        manager.update_workflow_state({"a": 1})


def test_without_a_session_there_is_nothing_to_describe(manager: SessionManager) -> None:
    for act in (
        lambda: manager.describe(title="x"),
        lambda: manager.set_workflow_state({}),
        lambda: manager.update_workflow_state({}),
        lambda: next(manager.children()),
    ):
        with pytest.raises(NoActiveSession):
            act()


def test_the_children_of_a_session_are_found(manager: SessionManager) -> None:
    parent = manager.create().session_id
    manager.release()
    children = []
    for _ in range(2):
        children.append(manager.create(parent_id=parent).session_id)
        manager.release()
    assert [one.session_id for one in manager.children(parent)] == children
    manager.delete(parent)
    assert [one.head.parent_id for one in manager.children(parent)] == [parent, parent]
    manager.open(children[0])
    assert list(manager.children()) == []
    with pytest.raises(InvalidSession):
        next(manager.children("../x"))
