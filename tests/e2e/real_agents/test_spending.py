"""What the real programs spend: killed in the middle, and in dollars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.harness.views.conversations import conversations
from tests.support.real_agents import FULL_DISK, HOOK, Workplace, briefings, hook_script, program
from tests.support.scripted_model import scripted_model

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


def test_gemini_killed_inside_a_tool_that_it_called_without_a_word_is_charged(
    place: Workplace,
) -> None:
    """Its own file has that message's tokens only once the tool has run."""
    place.configure_gemini()
    place.install("gemini")
    session_id = place.begin()
    tool = {"name": "run_shell_command", "input": {"command": "touch reached; sleep 60"}}
    place.model.script.add({"tools": [tool], "usage": {"input": 400, "output": 100, "cached": 50}})
    command = [program("gemini"), "-p", "Begin", "-o", "json", "--approval-mode", "yolo"]
    place.kill_at_work([*command, "-m", "gemini-2.5-flash"])
    place.model.script.clear()
    place.model.script.add({"text": "carried on", "usage": {"input": 300, "output": 50}})
    place.gemini("Go on")
    session = place.session(session_id)
    assert session.token_budget.tokens_used == 500 + 350
    first, _ = conversations(session.history)
    assert first.kinds == {"input": 400, "output": 100}, "the event says nothing of cached ones"


PROGRAMS: Final = ("claude-code", "codex", "gemini", "opencode")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_conversation_that_could_not_be_saved_is_charged_later(
    place: Workplace, tmp_path: Path, name: str
) -> None:
    """Its hooks can write to no file until it is resumed."""
    session_id = place.begin()
    sick = hook_script(tmp_path, f'exec {FULL_DISK} {HOOK} "$@"')
    place.model.script.add({"text": "All is well", "usage": {"input": 700, "output": 10}})
    match name:
        case "claude-code":
            place.hook_claude(f"{FULL_DISK} {HOOK} claude-code")
            first = place.claude("Begin")
            place.hook_claude()
            place.claude("Go on", "--resume", first["session_id"])
        case "codex":
            place.hook_codex(f"{FULL_DISK} {HOOK} codex")
            place.codex("Begin")
            place.hook_codex()
            place.codex("Go on", "resume", "--last")
        case "gemini":
            place.configure_gemini()
            place.install("gemini", sick)
            place.gemini("Begin")
            place.install("gemini")
            place.gemini("more", "--resume", "latest")
        case "opencode":
            place.configure_opencode()
            place.install("opencode", sick)
            place.opencode("Begin")
            place.install("opencode")
            place.opencode("more", "--continue")
    assert place.session(session_id).token_budget.tokens_used == 710 + 110


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1"])
def test_the_table_of_prices_has_claude_codes_own_figure(place: Workplace, model: str) -> None:
    place.hook_claude()
    session_id = place.begin(budget=10_000_000)
    place.model.script.add(
        {"text": "so", "usage": {"input": 12_345, "output": 678, "cached": 91_011}}
    )
    result = place.claude("Say so", "--model", model)
    (talk,) = conversations(place.session(session_id).history)
    assert talk.micro_usd == round(result["total_cost_usd"] * 1_000_000)
    assert talk.kinds["cache_read"] == 91_011
    (charge,) = [one for one in place.session(session_id).history if one.action == "agent_usage"][
        :1
    ]
    assert charge.data["priced_by"].startswith("prices ")
    assert talk.unpriced == 0


def test_opencodes_own_figure_is_the_cost(place: Workplace) -> None:
    place.configure_opencode()
    place.install("opencode")
    path = place.home / ".config" / "opencode" / "opencode.json"
    settings = json.loads(path.read_text())
    cost = {"input": 4, "output": 20, "cache_read": 0.5, "cache_write": 5}
    settings["provider"]["scripted"]["models"]["m"]["cost"] = cost
    path.write_text(json.dumps(settings))
    session_id = place.begin(budget=10_000_000)
    place.model.script.add(
        {"text": "so", "usage": {"input": 1_000, "output": 200, "cached": 4_000}}
    )
    events = place.opencode("Say so")
    reported = sum(one["part"]["cost"] for one in events if one["type"] == "step_finish")
    (talk,) = conversations(place.session(session_id).history)
    assert talk.micro_usd is not None
    assert talk.micro_usd >= round(reported * 1_000_000) >= 4_000 + 4_000 + 2_000


def test_a_forked_conversation_of_claude_code_is_charged_once_and_bound(place: Workplace) -> None:
    """Its file begins with a copy of the first one's, usage and briefing included.

    That file is not there when it starts, and the hook is not given whose copy it will be: so it
    has a briefing of its own after the copied one, which that supersedes.
    """
    place.hook_claude()
    session_id = place.begin()
    place.model.script.add({"text": "All is well", "usage": {"input": 700, "output": 10}})
    first = place.claude("Begin")
    place.model.script.add({"text": "Elsewhere", "usage": {"input": 400, "output": 20}})
    fork = place.claude("Go on", "--resume", first["session_id"], "--fork-session")
    assert fork["session_id"] != first["session_id"]
    session = place.session(session_id)
    assert session.token_budget.tokens_used == 710 + 420
    assert [one.agent_session for one in conversations(session.history)] == [
        first["session_id"],
        fork["session_id"],
    ]
    assert [briefings(one) for one in place.model.requests] == [1, 2]
    place.model.script.add({"text": "Back", "usage": {"input": 300, "output": 30}})
    place.claude("And on", "--resume", first["session_id"])
    assert place.session(session_id).token_budget.tokens_used == 710 + 420 + 330
    assert briefings(place.model.requests[-1]) == 1
