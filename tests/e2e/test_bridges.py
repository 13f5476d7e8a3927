"""Graphs and conversations on our sessions, in killed processes, and on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager
from tests.support.soak import SOAKING

# Several processes a test, each of which loads a whole SDK; each has a limit of its own.
pytestmark = pytest.mark.timeout(1500)

ROOT = Path(__file__).resolve().parents[2]
GRAPH = """
import os, signal, sys
from typing import TypedDict
from langgraph.graph import START, StateGraph
from agentforge_sessions.integrations.bridges.langgraph import AgentForgeSaver

class State(TypedDict, total=False):
    steps: list[int]

def step(state):
    steps = state.get("steps", [])
    if len(steps) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"steps": [*steps, len(steps)]}

builder = StateGraph(State)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges(
    "step", lambda state: "step" if len(state["steps"]) < 6 else "__end__"
)
graph = builder.compile(checkpointer=AgentForgeSaver(sys.argv[1]))
config = {"configurable": {"thread_id": "t"}, "recursion_limit": 50}
fresh = graph.get_state(config).created_at is None
state = graph.invoke({"steps": []} if fresh else None, config, durability="sync")
print(state["steps"])
"""
TALK = """
import asyncio, os, signal, sys
from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agentforge_sessions.integrations.bridges.openai_agents import AgentForgeSession

@function_tool
def look() -> str:
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "found"

model = ScriptedModel([[function_call("look", {}, call_id="c1")], [assistant_message("done")]])
agent = Agent(name="helper", model=model, tools=[look])
session = AgentForgeSession("talk", sys.argv[1])
config = RunConfig(tracing_disabled=True)
asyncio.run(Runner.run(agent, sys.argv[3], session=session, run_config=config))
for item in asyncio.run(session.get_items()):
    print(item.get("role") or item["type"], item.get("content") if "role" in item else "")
"""


def run(code: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        timeout=300,
        check=False,
    )


def test_a_graph_whose_process_is_killed_goes_on_after_its_last_step(base: Path) -> None:
    for death in (2, 4):
        killed = run(GRAPH, base, death)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(GRAPH, base, -1)
    assert done.stdout == "[0, 1, 2, 3, 4, 5]\n", done.stderr


def test_a_conversation_whose_process_is_killed_is_kept_and_goes_on(base: Path) -> None:
    first = run(TALK, base, "live", "Look.")
    assert first.returncode == 0, first.stderr
    killed = run(TALK, base, "die", "Look again.")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    last = run(TALK, base, "live", "And again.")
    assert last.returncode == 0, last.stderr
    lines = last.stdout.splitlines()
    assert lines[:4] == first.stdout.splitlines()[:4]
    assert [line for line in lines if line.startswith("user")][-1] == "user And again."


def test_the_command_line_lists_completes_and_prunes_a_conversation(base: Path) -> None:
    run(TALK, base, "live", "Look.")
    (session_id,) = SessionManager(base).store.list_sessions()

    def agentforge(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "AGENTFORGE_STORE": str(base)},
        )
        return done.stdout

    (shown,) = json.loads(agentforge("list", "--json"))["sessions"]
    assert shown["session_id"] == session_id
    assert shown["workflow_type"] == "openai-agents"
    manager = SessionManager(base)
    manager.open(session_id)
    manager.complete()
    assert manager.cleanup_old_sessions(days=0.0) == [session_id]
    assert not (base / session_id).exists()


def test_the_pydantic_ai_example_goes_on_in_another_process(base: Path) -> None:
    example = [sys.executable, str(ROOT / "examples" / "embedding" / "pydantic_ai_conversation.py")]

    def say(*words: str) -> list[str]:
        given = [*example, *words, "--base", str(base)]
        return subprocess.run(
            given, capture_output=True, text=True, check=True, timeout=300
        ).stdout.splitlines()

    answer, session = say("My name is Ada.")
    assert answer == "Hello."
    assert say("What is my name?", *session.split())[0] == "You began with: My name is Ada."


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="it installs Google's ADK into an environment of its own")
@pytest.mark.timeout(1800)
def test_the_adk_example_goes_on_in_another_process(base: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "adk"], check=True, timeout=300)
    python, examples = tmp_path / "adk" / "bin" / "python", ROOT / "examples" / "embedding"
    install = [python, "-m", "pip", "install", "--quiet", f"{ROOT}[google-adk]"]
    subprocess.run(install, check=True, timeout=1500)
    said = []
    for words in ("My name is Ada.", "What is my name?"):
        done = subprocess.run(
            [python, examples / "adk_conversation.py", words, "--base", base],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        said.append(done.stdout)
    assert said == ["Hello. (1 turns)\n", "You began with: My name is Ada. (2 turns)\n"]
