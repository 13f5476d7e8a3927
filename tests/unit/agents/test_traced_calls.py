"""What an agent is handed of the trace, and who it is in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentforge_sessions.agents.running import CommandAgent, RecordedAgent, Recorder
from agentforge_sessions.agents.running.agent_jail import JailedAgent
from agentforge_sessions.agents.running.command import call_variables
from agentforge_sessions.base.tracing import Traced, traced
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.workflows.agents.choice import make_agent, parse_agent
from agentforge_sessions.workflows.agents.port import (
    AgentIdentity,
)
from agentforge_sessions.workflows.run.run_spans import identity_of
from tests.support.agents import ScriptedAgent
from tests.support.tracing import recorded
from tests.unit.agents.test_command_agent import request

ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PRINT = "import os; print(os.environ.get('TRACEPARENT'), os.environ.get('TRACESTATE'))"


def test_a_command_is_handed_the_span_of_its_call() -> None:
    agent = CommandAgent([sys.executable, "-c", PRINT])
    environment = {"TRACEPARENT": ELSEWHERE, "TRACESTATE": "vendor=1"}
    with recorded(environment) as kept, traced(Traced.AGENT_CALL, detail="chat m") as span:
        printed = agent.answer(request()).text.split()
        assert printed == [span.carrier["traceparent"], "vendor=1"]
    assert kept.only("chat m").name in {one.name for one in kept.spans}


def test_a_commands_own_environment_does_not_beat_it() -> None:
    agent = CommandAgent([sys.executable, "-c", PRINT], environment={"TRACEPARENT": ELSEWHERE})
    with recorded(), traced(Traced.AGENT_CALL, detail="chat m") as span:
        assert agent.answer(request()).text.split()[0] == span.carrier["traceparent"]


def test_untraced_a_command_has_what_the_caller_has() -> None:
    agent = CommandAgent([sys.executable, "-c", PRINT], environment={"TRACEPARENT": ELSEWHERE})
    assert agent.answer(request()).text.split() == [ELSEWHERE, "None"]
    assert "TRACEPARENT" not in call_variables(request())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("claude", AgentIdentity(name="claude", provider="anthropic")),
        ("codex:gpt-5", AgentIdentity(name="codex", provider="openai", model="gpt-5")),
        ("gemini", AgentIdentity(name="gemini", provider="gcp.gemini")),
        ("opencode", AgentIdentity(name="opencode", provider="opencode")),
        ("/usr/bin/llm -k secret", AgentIdentity(name="llm", provider="llm")),
        ("recorded:x", AgentIdentity(name="recorded", provider="agentforge")),
        (
            "openai:qwen@http://127.0.0.1:8000/v1",
            AgentIdentity(
                name="qwen",
                provider="openai",
                operation="chat",
                model="qwen",
                host="127.0.0.1",
                port=8000,
            ),
        ),
        (
            "anthropic:opus",
            AgentIdentity(
                name="opus",
                provider="anthropic",
                operation="chat",
                model="opus",
                host="api.anthropic.com",
                port=443,
            ),
        ),
    ],
)
def test_agents_say_who_they_are(text: str, expected: AgentIdentity) -> None:
    assert identity_of(make_agent(parse_agent(text))) == expected


def test_an_agent_that_edits_is_its_program(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    made = identity_of(JailedAgent(store, parse_agent("env -i /usr/bin/codex exec --secret x")))
    assert made == AgentIdentity(name="codex", provider="openai")


def test_a_recorder_is_who_it_records(tmp_path: Path) -> None:
    assert identity_of(Recorder(RecordedAgent(tmp_path), tmp_path)).name == "recorded"
    assert identity_of(Recorder(ScriptedAgent(), tmp_path)).provider == "_OTHER"


def test_an_identity_that_is_none_is_passed_over() -> None:
    class Odd(ScriptedAgent):
        identity = "somebody"

    assert identity_of(Odd()) == AgentIdentity(name="scripted", provider="_OTHER")
