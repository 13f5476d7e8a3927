"""Gemini CLI itself, with the extension: judged by the requests that the model received."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionState
from tests.support.real_agents import FULL_DISK, HOOK, Workplace, briefings, hook_script, program
from tests.support.scripted_model import scripted_model

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        place = Workplace(tmp_path, model)
        place.configure_gemini()
        place.install("gemini")
        yield place


def write_tool(name: str = "made.txt") -> dict[str, object]:
    return {"name": "write_file", "input": {"file_path": name, "content": "x"}}


def shell_tool(command: str = "true") -> dict[str, object]:
    return {"name": "run_shell_command", "input": {"command": command}}


def reported(result: dict[str, Any], *roles: str) -> int:
    """Return all tokens that a run reports of its models, in these roles or in all."""
    models = result["stats"]["models"].values()
    if not roles:
        return sum(one["tokens"]["total"] for one in models)
    return sum(
        one["roles"].get(role, {"tokens": {"total": 0}})["tokens"]["total"]
        for one in models
        for role in roles
    )


def test_a_conversation_is_recorded_charged_as_reported_and_briefed_after_restart(
    place: Workplace,
) -> None:
    session_id = place.begin(goal="Count the words")
    place.model.script.add(
        {
            "text": "at work",
            "tools": [write_tool(), shell_tool()],
            "usage": {"input": 1000, "output": 50, "cached": 200},
        },
        {"text": "Counted; decided for bytes.", "usage": {"input": 700, "output": 30}},
    )
    first = place.gemini("Count")
    assert [briefings(one) for one in place.model.requests] == [1, 1]
    assert "Goal: “Count the words" in json.dumps(place.model.requests[0], ensure_ascii=False)
    assert place.session(session_id).token_budget.tokens_used == reported(first) == 1780

    place.model.script.add({"text": "and on", "usage": {"input": 500, "output": 20}})
    second = place.gemini("more", "--resume", "latest")
    last = json.dumps(place.model.requests[-1]["contents"][-1])
    assert "AgentForge session briefing, revision" in last
    assert "Counted; decided for bytes." in last
    used = place.session(session_id).token_budget.tokens_used
    assert used == reported(first) + reported(second)

    session = place.session(session_id)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [("made.txt", "created")]
    prompts = [entry.details for entry in session.history if entry.action == "agent_prompted"]
    assert prompts == ["Count", "more"]


def test_a_failed_gate_sends_the_agent_on_and_a_compression_is_followed_by_a_briefing(
    place: Workplace,
) -> None:
    """The gate makes the second message, before which the program compresses."""
    place.configure_gate()
    session_id = place.begin(budget=2_000_000)
    summary = {"text": "<state_snapshot>SUMMARY: words.</state_snapshot>"}
    place.model.script.when("Generate a new <state_snapshot>", summary)
    place.model.script.when("Critically evaluate the <state_snapshot>", summary)
    place.model.script.add(
        {
            "text": "I am done, as far as I can see; nothing else is left.",
            "usage": {"input": 900_000, "output": 500},
        },
        {"tools": [write_tool("fixed")], "usage": {"input": 800, "output": 20}},
        {"text": "Now it is", "usage": {"input": 900, "output": 30}},
    )
    result = place.gemini("Fix it")
    asked = [one for one in place.model.requests if one.get("tools")]
    assert any("IT-IS-RED" in json.dumps(one) for one in asked)
    assert "SUMMARY: words." in json.dumps(asked[-1])
    assert [briefings(one) for one in asked] == [1, 1, 1]
    session = place.session(session_id)
    judged = [e.data["passed"] for e in session.history if e.action == "agent_gate"]
    assert judged == [False, True]
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_compacted") == happened.count("checkpoint") == 1
    assert session.token_budget.tokens_used == reported(result, "main")


def test_a_subagent_is_charged_too(place: Workplace) -> None:
    session_id = place.begin()
    subagent = {"name": "invoke_agent", "input": {"agent_name": "generalist", "prompt": "SUBTASK"}}
    place.model.script.add(
        {"tools": [subagent], "usage": {"input": 500, "output": 20}},
        {
            "tools": [{"name": "complete_task", "input": {"result": "r", "response": "r"}}],
            "usage": {"input": 700, "output": 30},
        },
        {"text": "two", "usage": {"input": 300, "output": 40}},
    )
    result = place.gemini("Delegate")
    assert "SUBTASK" in json.dumps(place.model.requests[1]["contents"])
    assert place.session(session_id).token_budget.tokens_used == reported(result)


def test_a_spent_budget_stops_the_agent_and_refuses_the_next_prompt_until_extended(
    place: Workplace,
) -> None:
    session_id = place.begin(budget=2_000)
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 1_650, "output": 50}},
        *[{"tools": [shell_tool()], "usage": {"input": 400, "output": 50}} for _ in range(3)],
    )
    place.gemini("Work")
    assert len(place.model.requests) == 2, "none after the one that spent it"
    assert "85 % of this session's token budget" in json.dumps(place.model.requests[1])
    session = place.session(session_id)
    assert session.state is SessionState.PAUSED
    assert any("the budget is spent" in (one.details or "") for one in session.history)

    place.gemini("more", "--resume", "latest")
    assert len(place.model.requests) == 2

    place.open(session_id).extend_budget(100_000)
    place.gemini("more", "--resume", "latest")
    assert len(place.model.requests) > 2
    assert place.session(session_id).state is SessionState.ACTIVE


def test_hooks_that_are_killed_in_the_middle_charge_nothing_twice_and_lose_nothing(
    place: Workplace, tmp_path: Path
) -> None:
    session_id = place.begin()
    first = place.gemini("Begin")
    script = hook_script(tmp_path, f'exec timeout --signal KILL 0.3 {HOOK} "$@"')
    place.install("gemini", script)
    two = [shell_tool(), shell_tool("true && true")]
    place.model.script.add(
        *[{"tools": two, "usage": {"input": 500 + number, "output": 10}} for number in range(3)]
    )
    second = place.gemini("Work", "--resume", "latest")
    place.install("gemini")
    place.model.script.clear()
    third = place.gemini("more", "--resume", "latest")
    used = place.session(session_id).token_budget.tokens_used
    assert used == reported(first) + reported(second) + reported(third)


@pytest.mark.parametrize("body", [None, "echo no json; exit 1", "sleep 3"])
def test_a_hook_that_is_missing_broken_or_slow_leaves_the_turn_alone(
    place: Workplace, tmp_path: Path, body: str | None
) -> None:
    missing = Path("/no/such/agentforge-hook")
    place.install("gemini", hook_script(tmp_path, body) if body else missing)
    place.model.script.add({"tools": [shell_tool()]}, {"text": "All is well"})
    assert place.gemini("Work")["response"] == "All is well"


@pytest.mark.parametrize("broken", [FULL_DISK, "corrupted session"])
def test_what_a_full_disk_or_a_corrupted_session_kept_out_is_charged_later(
    place: Workplace, tmp_path: Path, broken: str
) -> None:
    """The turn goes on meanwhile, and what it cost is not lost."""
    session_id = place.begin()
    first = place.gemini("Begin")
    file = place.store.session_path(session_id)
    sound = file.read_bytes()
    if broken == FULL_DISK:
        place.install("gemini", hook_script(tmp_path, f'exec {FULL_DISK} {HOOK} "$@"'))
    else:
        file.write_bytes(b"\x00")
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 700, "output": 10}}, {"text": "All is well"}
    )
    second = place.gemini("Work", "--resume", "latest")
    assert second["response"] == "All is well"
    assert file.read_bytes() == (sound if broken == FULL_DISK else b"\x00")
    file.write_bytes(sound)
    place.install("gemini")
    third = place.gemini("more", "--resume", "latest")
    used = place.session(session_id).token_budget.tokens_used
    assert used == reported(first) + reported(second) + reported(third)


def test_a_killed_program_is_followed_by_another_run_and_both_are_charged(
    place: Workplace,
) -> None:
    """The next conversation charges what the killed one had not reported."""
    session_id = place.begin(goal="Carry on")
    place.model.script.add(
        {"tools": [write_tool()], "usage": {"input": 900, "output": 100}},
        {
            "text": "now",
            "tools": [shell_tool("touch reached; sleep 60")],
            "usage": {"input": 400, "output": 100},
        },
    )
    command = [program("gemini"), "-p", "Begin", "-o", "json", "--approval-mode", "yolo"]
    place.kill_at_work([*command, "-m", "gemini-2.5-flash"])
    asked = len(place.model.requests)
    place.model.script.clear()
    place.model.script.add({"text": "carried on", "usage": {"input": 300, "output": 50}})
    place.gemini("Go on")
    first = json.dumps(place.model.requests[asked], ensure_ascii=False)
    assert "Goal: “Carry on" in first
    assert "made.txt" in first
    assert place.session(session_id).token_budget.tokens_used == 1_000 + 500 + 350


def test_a_session_of_opencode_is_carried_on_and_the_budget_counts_over_both(
    place: Workplace,
) -> None:
    place.configure_opencode()
    place.install("opencode")
    session_id = place.begin(goal="Carry on", budget=2_000)
    place.model.script.add(
        {
            "text": "Half of it is done.",
            "tools": [
                {
                    "name": "write",
                    "input": {"filePath": str(place.project / "half.txt"), "content": "x"},
                }
            ],
            "usage": {"input": 700, "output": 100},
        },
        {"text": "The other half is left.", "usage": {"input": 300, "output": 50}},
    )
    place.opencode("Begin")
    asked = len(place.model.requests)
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 900, "output": 50}},
        {"text": "too much"},
    )
    place.gemini("Go on")
    requests = place.model.requests[asked:]
    assert "half.txt" in json.dumps(requests[0])
    assert "The other half is left." in json.dumps(requests[0])
    assert len(requests) == 1, "the budget is spent by both"
    session = place.session(session_id)
    assert (session.token_budget.tokens_used, session.state) == (2_100, SessionState.PAUSED)
