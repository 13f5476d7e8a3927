"""What tools take, and how long text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.mcp_server import InvalidArguments
from tools.mcp_server.arguments import (
    AskUserQuestions,
    RunCode,
    SessionCreate,
    SessionShow,
    checked,
)
from tools.mcp_server.results import cut

OPTIONS = [{"label": "a"}, {"label": "b", "description": "d"}]
QUESTION = {"prompt": "p", "title": "t", "options": OPTIONS}


@pytest.mark.parametrize("name", ["multiSelect", "multi_select"])
def test_a_question_may_be_written_as_on_the_wire_or_as_in_python(name: str) -> None:
    asked = checked("ask", AskUserQuestions, {"questions": [{**QUESTION, name: True}]})
    assert asked.questions[0].multi_select is True
    assert asked.questions[0].options[1].description == "d"


@pytest.mark.parametrize("name", ["nonBlocking", "non_blocking"])
def test_not_to_wait_may_be_written_both_ways(name: str) -> None:
    assert checked("ask", AskUserQuestions, {"questions": [], name: True}).non_blocking is True


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
        checked("ask_user_questions", AskUserQuestions, given)
    assert any(one.startswith(fault) for one in caught.value.faults), caught.value.faults
    assert "Nothing was done" in str(caught.value)
    assert caught.value.tool == "ask_user_questions"


def test_all_faults_are_told_but_not_endlessly() -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked("x", SessionCreate, {str(i): i for i in range(1000)})
    assert caught.value.faults[-1] == "and 989 more faults"
    assert len(caught.value.faults) == 13


@pytest.mark.parametrize(
    "given", [{"code": "1", "session_id": ""}, {"code": "1", "session_id": "x" * 129}]
)
def test_an_id_has_a_length(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments):
        checked("run_code", RunCode, given)


def test_nothing_given_is_the_same_as_no_arguments() -> None:
    with pytest.raises(InvalidArguments, match="session_id: is missing"):
        checked("session_show", SessionShow, None)


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
