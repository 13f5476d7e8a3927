"""Codex itself, with the hook: judged by the requests that the model received."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentforge_sessions.harness import SessionState
from tests.support.real_agents import (
    FULL_DISK,
    HOOK,
    Workplace,
    briefings,
    warnings,
)
from tests.support.scripted_model import reported

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
    assert briefings(place.model.requests[-1]) == 1
    usage = events[-1]["usage"]
    session = place.session(session_id)
    assert session.token_budget.tokens_used == usage["input_tokens"] + usage["output_tokens"]
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_compacted") == happened.count("checkpoint") == 1
    assert "agent_turn_ended" in happened

    asked = len(place.model.requests)
    place.codex("Go on", "resume", "--last")
    assert briefings(place.model.requests[asked]) == 1
    assert "AgentForge session update, revision" in json.dumps(place.model.requests[asked])


def subagent_tool(name: str, **given: object) -> dict[str, object]:
    return {"name": name, "namespace": "multi_agent_v1", "input": given}


def charged(place: Workplace, session_id: str) -> tuple[int, int]:
    """Return what was charged, and what the model told that it cost."""
    used = place.session(session_id).token_budget.tokens_used
    return used, reported(place.model.script.given, cached_is_part=True)


def delegate(place: Workplace) -> None:
    """Have the model start a subagent, use tools while it works, and end after it."""
    usages = ({"input": 900 + number, "output": 7, "cached": 100} for number in range(100))
    end = {"text": "all done", "usage": next(usages)}
    begin = {
        "text": "a part for another",
        "tools": [subagent_tool("spawn_agent", message="SUBTASK")],
        "usage": next(usages),
    }
    wait = [{"tools": [shell_tool("sleep 1")], "usage": next(usages)} for _ in range(60)]
    two = [shell_tool(), shell_tool("true && true")]
    place.model.script.when(r"\"completed\":", end)
    place.model.script.when("Delegate", begin, *wait)
    place.model.script.add(
        {"text": "my part", "tools": two, "usage": {"input": 700, "output": 30}},
        {"text": "my part is done", "usage": {"input": 300, "output": 40}},
    )


def test_subagents_and_parallel_tools_are_charged_as_the_model_reported(place: Workplace) -> None:
    session_id = place.begin(budget=1_000_000)
    delegate(place)
    place.codex("Delegate")
    assert "my part is done" in str(place.model.script.given)
    assert len(set(charged(place, session_id))) == 1
    prompts = [e.details for e in place.session(session_id).history if e.action == "agent_prompted"]
    assert prompts == ["Delegate"]


def test_hooks_that_are_killed_in_the_middle_charge_nothing_twice_and_lose_nothing(
    place: Workplace,
) -> None:
    """A compaction and a subagent among what they would have charged."""
    session_id = place.begin(budget=1_000_000)
    place.model.script.add({"text": "begun", "usage": {"input": 200, "output": 20}})
    place.codex("Begin")
    place.hook_codex(f"timeout --signal KILL 0.3 {HOOK} codex")
    delegate(place)
    place.codex("Delegate", "resume", "--last")
    two = [shell_tool(), shell_tool("true && true")]
    place.model.script.clear()
    place.model.script.add(
        {"text": "a", "tools": two, "usage": {"input": 60_000, "output": 20}},
        {"text": "b", "tools": two, "usage": {"input": 800, "output": 20}},
    )
    place.codex("Work", "resume", "--last", "-c", "model_auto_compact_token_limit=50000")
    place.hook_codex()
    place.codex("Go on", "resume", "--last")
    assert len(set(charged(place, session_id))) == 1


@pytest.mark.parametrize(
    "hook", ["/no/such/agentforge-hook codex", "sh -c 'echo no json; exit 1'", "sleep 3"]
)
def test_a_hook_that_is_missing_broken_or_slow_leaves_the_turn_alone(
    place: Workplace, hook: str
) -> None:
    place.hook_codex(hook)
    place.model.script.add({"tools": [shell_tool()]}, {"text": "All is well"})
    assert said(place.codex("Work")) == "All is well"


@pytest.mark.parametrize("broken", [FULL_DISK, "corrupted session"])
def test_what_a_full_disk_or_a_corrupted_session_kept_out_is_charged_later(
    place: Workplace, broken: str
) -> None:
    """The turn goes on meanwhile, and what it cost is not lost."""
    session_id = place.begin()
    place.codex("Begin")
    file = place.store.session_path(session_id)
    sound = file.read_bytes()
    if broken == FULL_DISK:
        place.hook_codex(f"{FULL_DISK} {HOOK} codex")
    else:
        file.write_bytes(b"\x00")
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 700, "output": 10}}, {"text": "All is well"}
    )
    assert said(place.codex("Work", "resume", "--last")) == "All is well"
    assert file.read_bytes() == (sound if broken == FULL_DISK else b"\x00")
    file.write_bytes(sound)
    place.hook_codex()
    place.codex("Go on", "resume", "--last")
    assert len(set(charged(place, session_id))) == 1


def test_an_edited_file_is_an_artifact_and_a_failed_gate_sends_the_agent_on(
    place: Workplace,
) -> None:
    place.configure_gate()
    session_id = place.begin()
    patch = "*** Begin Patch\n*** Add File: fixed\n+done\n*** End Patch\n"
    command = f"apply_patch <<'EOF'\n{patch}EOF\n"
    place.model.script.add({"text": "I am done"}, {"tools": [shell_tool(command)]})
    place.codex("Fix it")
    assert any("IT-IS-RED" in json.dumps(one) for one in place.model.requests)
    session = place.session(session_id)
    judged = [entry for entry in session.history if entry.action == "agent_gate"]
    assert [entry.data["passed"] for entry in judged] == [False, True]
    assert [one.path for one in session.artifacts] == ["fixed"]


def said(events: list[dict[str, Any]]) -> str:
    """Return what the agent said last."""
    items = [one["item"] for one in events if one["type"] == "item.completed"]
    return str([one["text"] for one in items if one["type"] == "agent_message"][-1])


def test_a_spent_budget_denies_tools_and_refuses_the_next_prompt_until_extended(
    place: Workplace,
) -> None:
    session_id = place.begin(budget=2_000)
    place.model.script.add(
        {"tools": [shell_tool("touch first")], "usage": {"input": 1_650, "output": 50}},
        {"tools": [shell_tool("touch second")], "usage": {"input": 400, "output": 50}},
        {"text": "stopped"},
    )
    place.codex("Work")
    assert [(place.project / one).exists() for one in ("first", "second")] == [True, False]
    assert len(place.model.requests) == 3
    assert warnings(place.model.requests[1]) == 1
    session = place.session(session_id)
    assert session.state is SessionState.PAUSED
    assert "the budget is spent" in str([entry.details for entry in session.history])

    place.codex("Go on")
    assert len(place.model.requests) == 3

    place.open(session_id).extend_budget(100_000)
    place.codex("Go on")
    assert len(place.model.requests) == 4
    assert "stopped" in json.dumps(place.model.requests[-1]) or briefings(place.model.requests[-1])
