"""Codex itself, with the hook: judged by the requests that the model received."""

from __future__ import annotations

import json

import pytest

from agentforge_sessions.harness import SessionState
from tests.support.real_agents import Workplace, briefings

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def hook(place: Workplace) -> None:
    place.hook_codex()


def shell_tool(command: str = "true") -> dict[str, object]:
    return {"name": "exec_command", "input": {"cmd": command}}


def test_a_conversation_with_a_compaction_is_briefed_recorded_and_charged_as_reported(
    place: Workplace,
) -> None:
    session_id = place.begin(goal="Count the words", budget=1_000_000)
    place.model.script.add(
        {"text": "a", "tools": [shell_tool()], "usage": {"input": 1000, "output": 50}},
        {"text": "b", "tools": [shell_tool()], "usage": {"input": 60_000, "output": 20}},
        {"text": "Counted; decided for bytes.", "usage": {"input": 700, "output": 30}},
    )
    events = place.codex("Count", "-c", "model_auto_compact_token_limit=50000")
    assert briefings(place.model.requests[0]) == 1
    assert briefings(place.model.requests[-1]) >= 1
    usage = events[-1]["usage"]
    session = place.session(session_id)
    assert session.token_budget.tokens_used == usage["input_tokens"] + usage["output_tokens"]
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_compacted") == happened.count("checkpoint") == 1
    assert "agent_turn_ended" in happened

    asked = len(place.model.requests)
    place.codex("Go on", "resume", "--last")
    assert asked < len(place.model.requests)


def test_a_spent_budget_denies_tools_and_refuses_the_next_prompt_until_extended(
    place: Workplace,
) -> None:
    session_id = place.begin(budget=2_000)
    place.model.script.add(
        {"tools": [shell_tool("touch first")], "usage": {"input": 2_500, "output": 50}},
        {"text": "stopped"},
    )
    place.codex("Work")
    assert not (place.project / "first").exists()
    assert len(place.model.requests) == 2
    assert place.session(session_id).state is SessionState.PAUSED

    place.codex("Go on")
    assert len(place.model.requests) == 2

    place.open(session_id).extend_budget(100_000)
    place.codex("Go on")
    assert len(place.model.requests) == 3
    assert "stopped" in json.dumps(place.model.requests[-1]) or briefings(place.model.requests[-1])
