"""`show` tells what agent programs did in a session."""

from __future__ import annotations

from agentforge_sessions.harness.domain.history_events import (
    BUDGET_CAUSE,
    AgentEdited,
    AgentPrompted,
    AgentUsage,
)
from tests.unit.cli.conftest import START, CommandLine


def worked_on(agentforge: CommandLine) -> str:
    session_id = agentforge.new()
    session = agentforge.session(session_id)
    one = {"program": "claude-code", "agent_session": "11111111-aaaa"}
    two = {"program": "codex", "agent_session": "22222222-bbbb"}
    session.add_event(AgentPrompted(**one, text="Begin"), now=START)
    session.add_event(AgentEdited(**one, path="a.py"), now=START)
    usage = {"opus": 1_200, "haiku": 34}
    session.add_event(AgentUsage(**one, tokens=1_234, models=usage, micro_usd=1_250_000), now=START)
    session.add_event(AgentUsage(**two, tokens=5), now=START)
    session.apply("pause", details="it is spent", cause=BUDGET_CAUSE, now=START)
    agentforge.store.save(session)
    return session_id


def test_show_has_a_row_for_each_conversation_and_each_stop(agentforge: CommandLine) -> None:
    out = agentforge("show", worked_on(agentforge)).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "PROGRAM CONVERSATION PROMPTS TURNS FILES COMPACTIONS TOKENS BY MODEL COST LAST" in lines
    (claude,) = [line for line in lines if line.startswith("claude-code 11111111 ")]
    assert claude.startswith("claude-code 11111111 1 0 1 0 1,234 haiku 34, opus 1,200 $1.25 ")
    (codex,) = [line for line in lines if line.startswith("codex 22222222 ")]
    assert codex.startswith("codex 22222222 0 0 0 0 5 unknown 5 cost unknown ")
    assert sum("it is spent" in line for line in lines) >= 1


def test_show_has_them_in_json(agentforge: CommandLine) -> None:
    document = agentforge("show", worked_on(agentforge), "--json").document
    claude, codex = document["conversations"]
    assert claude["models"] == {"opus": 1_200, "haiku": 34}
    assert (claude["micro_usd"], codex["micro_usd"]) == (1_250_000, None)
    assert (claude["files"], claude["prompts"], codex["tokens"]) == (["a.py"], 1, 5)
    assert [one["details"] for one in document["budget_stops"]] == ["it is spent"]
    assert "conversations" not in agentforge("show", agentforge.new(), "--json").document
