"""Claude Code itself, with the hook: judged by the requests that the model received."""

from __future__ import annotations

import json

import pytest

from agentforge_sessions.harness import SessionState
from tests.support.real_agents import (
    FULL_DISK,
    HOOK,
    Workplace,
    briefings,
    program,
    reported_by_claude,
    warnings,
)

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def hook(place: Workplace) -> None:
    place.hook_claude()


def write_tool(place: Workplace, name: str = "made.txt") -> dict[str, object]:
    return {"name": "Write", "input": {"file_path": str(place.project / name), "content": "x"}}


def shell_tool(command: str = "true") -> dict[str, object]:
    return {"name": "Bash", "input": {"command": command}}


def test_a_conversation_is_recorded_charged_as_reported_and_briefed_after_restart_and_compaction(
    place: Workplace,
) -> None:
    session_id = place.begin(goal="Count the words")
    place.model.script.add(
        {
            "text": "at work",
            "tools": [write_tool(place), shell_tool()],
            "usage": {"input": 1000, "output": 50, "cached": 200},
        },
        {"text": "Counted; decided for bytes.", "usage": {"input": 700, "output": 30}},
    )
    first = place.claude("Count them")
    assert briefings(place.model.requests[0]) == 1
    assert "Goal: “Count the words" in json.dumps(place.model.requests[0], ensure_ascii=False)
    assert place.session(session_id).token_budget.tokens_used == reported_by_claude(first) == 1980

    place.claude("/compact", "--resume", first["session_id"])
    place.model.script.add({"text": "and on", "usage": {"input": 500, "output": 20}})
    before = len(place.model.requests)
    last = place.claude("Go on", "--resume", first["session_id"])
    resumed = place.model.requests[before]
    assert briefings(resumed) == 1
    assert "Counted; decided for bytes." in json.dumps(resumed)
    assert place.session(session_id).token_budget.tokens_used == reported_by_claude(last)

    session = place.session(session_id)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [("made.txt", "created")]
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_prompted") == 2
    assert happened.count("agent_compacted") == happened.count("checkpoint") == 1


def test_an_automatic_compaction_is_followed_by_a_briefing(place: Workplace) -> None:
    place.begin(budget=1_000_000)
    place.model.script.add(
        {"text": "a", "tools": [shell_tool()], "usage": {"input": 190_000, "output": 10}},
    )
    place.claude(
        "Go",
        "--model",
        "claude-sonnet-4-5",
        CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000",
        CLAUDE_AUTOCOMPACT_PCT_OVERRIDE="50",
    )
    assert briefings(place.model.requests[-1]) == 1
    assert len(place.model.requests) >= 3


def test_a_subagent_is_charged_too(place: Workplace) -> None:
    session_id = place.begin()
    subagent = {
        "name": "Agent",
        "input": {"description": "d", "prompt": "SUBTASK", "subagent_type": "general-purpose"},
    }
    place.model.script.add(
        {"tools": [subagent], "usage": {"input": 500, "output": 20}},
        {"text": "one", "usage": {"input": 700, "output": 30}},
        {"text": "two", "usage": {"input": 300, "output": 40}},
    )
    result = place.claude("Delegate")
    assert place.session(session_id).token_budget.tokens_used == reported_by_claude(result)


def test_a_spent_budget_stops_the_agent_and_refuses_the_next_prompt_until_extended(
    place: Workplace,
) -> None:
    session_id = place.begin(budget=2_000)
    usages = [{"input": 1_650, "output": 50}, *[{"input": 40, "output": 10}] * 10]
    place.model.script.add(*[{"tools": [shell_tool()], "usage": usage} for usage in usages])
    first = place.claude("Work")
    assert len(place.model.requests) <= 8, "at most one after the seventh, which spent it"
    assert warnings(place.model.requests[-1]) == 1
    session = place.session(session_id)
    assert session.state is SessionState.PAUSED
    assert "the budget is spent" in str([entry.details for entry in session.history])

    asked = len(place.model.requests)
    place.claude("Go on", "--resume", first["session_id"])
    assert len(place.model.requests) == asked

    place.open(session_id).extend_budget(100_000)
    place.claude("Go on", "--resume", first["session_id"])
    assert len(place.model.requests) > asked
    assert place.session(session_id).state is SessionState.ACTIVE


def test_hooks_that_are_killed_in_the_middle_charge_nothing_twice_and_lose_nothing(
    place: Workplace,
) -> None:
    session_id = place.begin()
    first = place.claude("Begin")
    place.hook_claude(f"timeout --signal KILL 0.3 {HOOK} claude-code")
    two = [shell_tool(), shell_tool("true && true")]
    place.model.script.add(
        *[{"tools": two, "usage": {"input": 500 + number, "output": 10}} for number in range(4)]
    )
    place.claude("Work", "--resume", first["session_id"])
    place.hook_claude()
    place.model.script.clear()
    last = place.claude("Go on", "--resume", first["session_id"])
    assert place.session(session_id).token_budget.tokens_used == reported_by_claude(last)


def test_a_failed_gate_sends_the_agent_on_with_its_evidence(place: Workplace) -> None:
    place.configure_gate()
    session_id = place.begin()
    place.model.script.add({"text": "I am done"}, {"tools": [write_tool(place, "fixed")]})
    place.claude("Fix it")
    assert any("IT-IS-RED" in json.dumps(one) for one in place.model.requests)
    judged = [e for e in place.session(session_id).history if e.action == "agent_gate"]
    assert [entry.data["passed"] for entry in judged] == [False, True]


@pytest.mark.parametrize(
    "hook", ["/no/such/agentforge-hook claude-code", "sh -c 'echo no json; exit 1'", "sleep 3"]
)
def test_a_hook_that_is_missing_broken_or_slow_leaves_the_turn_alone(
    place: Workplace, hook: str
) -> None:
    place.hook_claude(hook)
    place.model.script.add({"tools": [shell_tool()]}, {"text": "All is well"})
    assert place.claude("Work")["result"] == "All is well"


@pytest.mark.parametrize("broken", [FULL_DISK, "corrupted session"])
def test_what_a_full_disk_or_a_corrupted_session_kept_out_is_charged_later(
    place: Workplace, broken: str
) -> None:
    """The turn goes on meanwhile, and what it cost is not lost."""
    session_id = place.begin()
    first = place.claude("Begin")
    file = place.store.session_path(session_id)
    sound = file.read_bytes()
    if broken == FULL_DISK:
        place.hook_claude(f"{FULL_DISK} {HOOK} claude-code")
    else:
        file.write_bytes(b"\x00")
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 700, "output": 10}}, {"text": "All is well"}
    )
    assert place.claude("Work", "--resume", first["session_id"])["result"] == "All is well"
    assert file.read_bytes() == (sound if broken == FULL_DISK else b"\x00")
    file.write_bytes(sound)
    place.hook_claude()
    last = place.claude("Go on", "--resume", first["session_id"])
    assert place.session(session_id).token_budget.tokens_used == reported_by_claude(last)


def test_a_killed_program_is_followed_by_another_and_both_are_charged(place: Workplace) -> None:
    """Claude Code is killed at work; Codex takes the session up with the briefing."""
    program("codex")
    place.hook_codex()
    session_id = place.begin(goal="Carry on")
    place.model.script.add(
        {"tools": [write_tool(place)], "usage": {"input": 900, "output": 100}},
        {"tools": [shell_tool("touch reached; sleep 60")], "usage": {"input": 400, "output": 100}},
    )
    options = ("-p", "Begin", "--output-format", "json", "--allowedTools", "Bash,Write")
    place.kill_at_work([program("claude"), *options])
    asked = len(place.model.requests)
    place.model.script.clear()
    place.model.script.add({"text": "carried on", "usage": {"input": 300, "output": 50}})
    place.codex("Go on")
    first = json.dumps(place.model.requests[asked], ensure_ascii=False)
    assert "Goal: “Carry on" in first
    assert "made.txt" in first
    assert place.session(session_id).token_budget.tokens_used == 1_000 + 500 + 350
