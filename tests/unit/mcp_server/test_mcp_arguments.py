"""What tools take, and how long text is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.entrypoints.mcp_server import InvalidArguments
from agentforge_sessions.entrypoints.mcp_server.arguments import checked
from agentforge_sessions.entrypoints.mcp_server.results import cut
from agentforge_sessions.entrypoints.mcp_server.serving import McpPlaces, McpServices, all_tools

SCHEMAS = {
    one.name: one.fn_metadata.arg_model
    for one in all_tools(McpServices.at(McpPlaces(sessions=Path("none"), questions=Path("none"))))
}

OPTIONS = [{"label": "a"}, {"label": "b", "description": "d"}]
QUESTION = {"prompt": "p", "title": "t", "options": OPTIONS}


@pytest.mark.parametrize("name", ["multiSelect", "multi_select"])
def test_a_question_may_be_written_as_on_the_wire_or_as_in_python(name: str) -> None:
    model = SCHEMAS["ask_user_questions"]
    asked: Any = checked("ask", model, {"questions": [{**QUESTION, name: True}]})
    assert asked.questions[0].multi_select is True
    assert asked.questions[0].options[1].description == "d"


@pytest.mark.parametrize("name", ["nonBlocking", "non_blocking"])
def test_not_to_wait_may_be_written_both_ways(name: str) -> None:
    asked: Any = checked("ask", SCHEMAS["ask_user_questions"], {"questions": [], name: True})
    assert asked.non_blocking is True


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "questions: is missing"),
        ({"questions": [{}]}, "questions[0].prompt: is missing"),
        ({"questions": [{**QUESTION, "x": 1}]}, "questions[0].x: is no argument"),
        (
            {"questions": [{**QUESTION, "options": [{"label": ""}]}]},
            "questions[0].options[0].label: string should have at least 1 character",
        ),
        ({"questions": "all"}, "questions: input should be a valid list"),
        ({"questions": [], "timeout_s": -1}, "timeout_s: input should be greater than 0"),
        ({"questions": [], "timeout_s": 1e9}, "timeout_s: input should be less than"),
        ({"questions": [], "timeout_s": float("inf")}, "timeout_s: input should be"),
    ],
)
def test_a_fault_is_told_with_its_place(given: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked("ask_user_questions", SCHEMAS["ask_user_questions"], given)
    assert any(one.startswith(fault) for one in caught.value.faults), caught.value.faults
    assert "Nothing was done" in str(caught.value)
    assert caught.value.tool == "ask_user_questions"


def test_all_faults_are_told_but_not_endlessly() -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked("x", SCHEMAS["session_create"], {str(i): i for i in range(1000)})
    assert caught.value.faults[-1] == "and 989 more faults"
    assert len(caught.value.faults) == 13


@pytest.mark.parametrize(
    "given", [{"code": "1", "session_id": ""}, {"code": "1", "session_id": "x" * 129}]
)
def test_an_id_has_a_length(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments):
        checked("run_code", SCHEMAS["run_code"], given)


def test_nothing_given_is_the_same_as_no_arguments() -> None:
    with pytest.raises(InvalidArguments, match="session_id: is missing"):
        checked("session_show", SCHEMAS["session_show"], None)


@given(text=st.text(max_size=300), limit=st.integers(1, 200))
def test_cut_text_keeps_its_beginning_and_its_end(text: str, limit: int) -> None:
    shown, was_cut = cut(text, limit)
    assert was_cut == (len(text) > limit)
    if not was_cut:
        assert shown == text
        return
    assert shown.startswith(text[: limit // 3])
    assert shown.endswith(text[-(limit - limit // 3) :])
    assert f"{len(text) - limit} characters left out" in shown


MODELS = {
    "session_create": (SCHEMAS["session_create"], {"goal": "g"}),
    "session_list": (SCHEMAS["session_list"], {}),
    "session_show": (SCHEMAS["session_show"], {"session_id": "s"}),
    "session_brief": (SCHEMAS["session_brief"], {"session_id": "s"}),
    "session_record_tokens": (SCHEMAS["session_record_tokens"], {"session_id": "s", "tokens": 1}),
    "session_record": (SCHEMAS["session_record"], {"session_id": "s", "action": "files_edited"}),
    "run_code": (SCHEMAS["run_code"], {"session_id": "s", "code": ""}),
    "ask_user_questions": (SCHEMAS["ask_user_questions"], {"questions": []}),
    "get_answered_questions": (SCHEMAS["get_answered_questions"], {"session_id": "s"}),
}


def arguments_of(kind: str) -> list[tuple[str, str]]:
    """Every argument of every tool whose schema says that it is of a kind."""
    return [
        (tool, name)
        for tool, (model, _) in MODELS.items()
        for name, schema in model.model_json_schema()["properties"].items()
        if kind in [one.get("type") for one in (schema, *schema.get("anyOf", []))]
    ]


@pytest.mark.parametrize("value", [True, False, "5", 5.0, 5.5, [5], {}])
@pytest.mark.parametrize(("tool", "name"), arguments_of("integer"))
def test_a_whole_number_is_nothing_else(tool: str, name: str, value: object) -> None:
    model, given = MODELS[tool]
    checked(tool, model, {**given, name: 100})
    with pytest.raises(InvalidArguments, match=f"{name}: "):
        checked(tool, model, {**given, name: value})


@pytest.mark.parametrize("value", [True, "5", [5]])
@pytest.mark.parametrize(("tool", "name"), arguments_of("number"))
def test_a_number_of_seconds_is_nothing_else(tool: str, name: str, value: object) -> None:
    model, given = MODELS[tool]
    checked(tool, model, {**given, name: 5})
    checked(tool, model, {**given, name: 0.5})
    with pytest.raises(InvalidArguments, match=f"{name}: "):
        checked(tool, model, {**given, name: value})


@pytest.mark.parametrize("value", [1, 0, "true", "no", None])
@pytest.mark.parametrize(("tool", "name"), arguments_of("boolean"))
def test_a_yes_or_no_is_nothing_else(tool: str, name: str, value: object) -> None:
    model, given = MODELS[tool]
    with pytest.raises(InvalidArguments, match="boolean"):
        checked(tool, model, {**given, name: value})


@pytest.mark.parametrize("tool", ["session_record_tokens", "session_record", "run_code"])
@pytest.mark.parametrize("tokens", [0, -1, 2**63])
def test_tokens_are_counted_from_one(tool: str, tokens: int) -> None:
    model, given = MODELS[tool]
    with pytest.raises(InvalidArguments, match="tokens: input should be"):
        checked(tool, model, {**given, "tokens": tokens})


@pytest.mark.parametrize("budget", [0, -1, True, 1000.0])
def test_a_budget_is_positive(budget: object) -> None:
    with pytest.raises(InvalidArguments, match="token_budget: "):
        checked("session_create", SCHEMAS["session_create"], {"goal": "g", "token_budget": budget})
    assert (
        SCHEMAS["session_create"].model_json_schema()["properties"]["token_budget"]["minimum"] == 1
    )


@pytest.mark.parametrize(
    "action",
    [
        *("session_created", "session_completed", "phase_advanced", "checkpoint", "inputs_placed"),
        *("question_asked", "questions_answered", "agent_answered", "budget_extended"),
    ],
)
def test_what_the_harness_writes_itself_cant_be_recorded_by_a_client(action: str) -> None:
    with pytest.raises(InvalidArguments, match=f"action: '{action}' is an action that the harness"):
        checked("session_record", SCHEMAS["session_record"], {"session_id": "s", "action": action})


@pytest.mark.parametrize("action", ["files_edited", "phase_failed", "phase_succeeded", "noted"])
def test_work_and_its_outcome_can_be_recorded(action: str) -> None:
    given = {"session_id": "s", "action": action}
    recorded: Any = checked("session_record", SCHEMAS["session_record"], given)
    assert recorded.action == action
