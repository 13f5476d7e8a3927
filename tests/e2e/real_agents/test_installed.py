"""What `agentforge install` puts into the real programs is loaded, and goes again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_agents import Workplace, briefings
from tests.support.scripted_model import scripted_model

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


def agentforge(place: Workplace, *arguments: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("agentforge"), *arguments],
        cwd=place.project,
        env=place.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout


def test_claude_code_loads_hooks_tools_skill_and_commands_from_the_plugin(
    place: Workplace,
) -> None:
    place.begin(goal="Count")
    agentforge(place, "install", "claude-code")
    place.model.script.add({"text": "shown", "usage": {"input": 10, "output": 10}})
    place.claude("/agentforge:budget", ENABLE_TOOL_SEARCH="false")
    request = json.dumps(place.model.requests[0])
    assert briefings(place.model.requests[0]) == 1
    assert "tell me in one line how many" in request
    assert "How to work in an AgentForge session" in request

    agentforge(place, "uninstall", "claude-code")
    asked = len(place.model.requests)
    place.claude("hi")
    assert briefings(place.model.requests[asked]) == 0
    assert not (place.home / ".claude" / "skills").exists()


def test_codex_loads_hooks_tools_and_skill_from_its_configuration(place: Workplace) -> None:
    config = place.home / ".codex" / "config.toml"
    before = config.read_bytes()
    place.begin(goal="Count")
    assert "/hooks" in agentforge(place, "install", "codex")
    place.codex("hi")
    request = json.dumps(place.model.requests[0])
    assert briefings(place.model.requests[0]) == 1
    assert "How to work in an AgentForge session" in request

    assert config.read_bytes().startswith(before)
    agentforge(place, "uninstall", "codex")
    assert config.read_bytes() == before


def test_tools_of_the_server_are_called_from_inside_codex(place: Workplace) -> None:
    """The model waits for the server's tools, which the program offers once the server is up."""
    session_id = place.begin(goal="Count")
    agentforge(place, "install", "codex")
    decided = {"session_id": session_id, "action": "decided", "details": "Bytes, not words."}
    tool = {"name": "session_record", "namespace": "mcp__agentforge", "input": decided}
    place.model.script.when('"name": "mcp__agentforge"', {"tools": [tool]}, {"text": "done"})
    wait = {"name": "exec_command", "input": {"cmd": "sleep 1", "yield_time_ms": 3000}}
    place.model.script.add(*[{"tools": [wait]}] * 60)
    place.codex("Decide", "-c", 'mcp_servers.agentforge.default_tools_approval_mode="approve"')
    recorded = [e.details for e in place.session(session_id).history if e.action == "decided"]
    assert recorded == ["Bytes, not words."]
