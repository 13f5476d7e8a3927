"""Frozen values as JSON has them: spelled by their fields, and made again of that."""

from __future__ import annotations

import json

import pytest

from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentOption,
    AgentQuestion,
    EditedFile,
    TokenUsage,
    WorkspaceChange,
)
from agentforge_sessions.workflows.converters import made, plain
from agentforge_sessions.workflows.workflow import Input

ANSWER = AgentAnswer(
    text="words",
    usage=TokenUsage(input_tokens=1, output_tokens=2),
    questions=[AgentQuestion(prompt="Which?", title="W", options=[AgentOption(label="a")])],
    change=WorkspaceChange(
        written=[EditedFile(path="a.bin", content=b"\x00\xff")], refused=[("b", "is fixed")]
    ),
)


def test_a_value_is_made_again_of_its_json() -> None:
    assert made(AgentAnswer, json.loads(json.dumps(plain(ANSWER)))) == ANSWER


def test_bytes_stand_in_base64_under_that_name() -> None:
    assert plain(Input(target="a", content=b"\xff")) == {"target": "a", "base64": "/w=="}


def test_what_is_missing_is_as_the_class_has_it() -> None:
    assert made(AgentAnswer, {"text": "x", "unknown": 1}, state="s") == AgentAnswer(
        text="x", state="s"
    )


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({}, KeyError),
        ([], TypeError),
        ({"text": ["x"]}, TypeError),
        ({"text": "x", "state": 7}, TypeError),
        ({"text": "x", "change": {"deleted": [None]}}, TypeError),
        ({"text": "x", "usage": []}, TypeError),
        ({"text": "x", "usage": {"input_tokens": -1, "output_tokens": 0}}, ValueError),
        ({"text": "x", "change": {"written": [{"path": "a", "base64": "?"}]}}, ValueError),
        ({"text": "x", "change": {"refused": [["a"]]}}, ValueError),
    ],
)
def test_what_is_no_such_value_is_refused(value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        made(AgentAnswer, value)
