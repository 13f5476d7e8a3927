"""What `agentforge install` puts into the real programs is loaded, and goes again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.promptness import wait_until
from tests.support.real_agents import PATIENCE_S, Workplace, briefings, program

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


QUESTION = {"question": "Which database?", "options": ["SQLite", "PostgreSQL"]}
IN_CLAUDE = "mcp__plugin_agentforge_agentforge__"
OFFERED_TO_CODEX = '"name": "mcp__agentforge"'
"""What a request has once the server is up."""
WAIT = {"name": "exec_command", "input": {"cmd": "sleep 1", "yield_time_ms": 3000}}
WAIT_IN_CODEX = {"tools": [WAIT]}
APPROVED = ("-c", 'mcp_servers.agentforge.default_tools_approval_mode="approve"')


def in_codex(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "namespace": "mcp__agentforge", "input": given}


def codex_command(*words: str) -> list[str | Path]:
    """Return the command line of a run in which no person has to approve a tool of ours."""
    options = ("--json", "--skip-git-repo-check", "-s", "workspace-write")
    trust = "--dangerously-bypass-hook-trust"
    return [program("codex"), "exec", *options, trust, *APPROVED, *words]


def agentforge(place: Workplace, *arguments: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("agentforge"), *arguments],
        cwd=place.project,
        env=place.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def test_claude_code_loads_hooks_tools_skill_and_commands_from_the_plugin(
    place: Workplace,
) -> None:
    place.begin(goal="Count")
    agentforge(place, "install", "claude-code")
    place.model.script.add({"text": "shown", "usage": {"input": 10, "output": 10}})
    place.claude("/agentforge:brief", ENABLE_TOOL_SEARCH="false")
    request = json.dumps(place.model.requests[0])
    assert briefings(place.model.requests[0]) == 1
    assert "show me its text as it is" in request
    assert "How to work in an AgentForge session" in request

    agentforge(place, "install", "--remove", "claude-code")
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
    agentforge(place, "install", "--remove", "codex")
    assert config.read_bytes() == before


def test_tools_of_the_server_are_called_from_inside_codex(place: Workplace) -> None:
    """The model waits for the server's tools, which the program offers once the server is up."""
    session_id = place.begin(goal="Count")
    agentforge(place, "install", "codex")
    tool = in_codex("checkpoint", {"note": "Bytes, not words."})
    place.model.script.when(OFFERED_TO_CODEX, {"tools": [tool]}, {"text": "done"})
    place.model.script.add(*[WAIT_IN_CODEX] * 300)
    place.run(codex_command("Decide"))
    recorded = [e.details for e in place.session(session_id).history if e.action == "noted"]
    assert recorded == ["Bytes, not words."]


def test_a_question_from_inside_claude_code_is_answered_by_another_process(
    place: Workplace,
) -> None:
    """The answer is in the next request of the same turn."""
    place.begin(goal="Count")
    agentforge(place, "install", "claude-code")
    name = f"{IN_CLAUDE}ask"
    place.model.script.when(
        f'"name": "{name}"', {"tools": [{"name": name, "input": QUESTION}]}, {"text": "noted"}
    )
    wait = {"name": "Bash", "input": {"command": "sleep 1"}}
    place.model.script.add(*[{"tools": [wait]}] * 300)
    command = [program("claude"), "-p", "Ask", "--allowedTools", f"{name},Bash"]
    out = _answered(place, command, ENABLE_TOOL_SEARCH="false")
    assert out.strip() == "noted", place.model.requests[-1]["messages"][-2:]
    result = _tool_results(place.model.requests[-1])[-1]
    assert not result.get("is_error")
    assert "SQLite" in json.dumps(result)


def test_a_question_from_inside_codex_is_answered_by_another_process(place: Workplace) -> None:
    """The answer is in the next request of the same turn."""
    session_id = place.begin(goal="Count")
    agentforge(place, "install", "codex")
    place.model.script.when(
        OFFERED_TO_CODEX, {"tools": [in_codex("ask", QUESTION)]}, {"text": "noted"}
    )
    place.model.script.add(*[WAIT_IN_CODEX] * 300)
    _answered(place, codex_command("Ask"))
    assert "SQLite" in json.dumps(place.model.requests[-1]["input"][-1])
    actions = [entry.action for entry in place.session(session_id).history]
    assert "question_answered" in actions


def test_a_question_from_inside_codex_outlives_a_compaction(place: Workplace) -> None:
    """Its id is in the briefing that follows; another process answers, the answer is fetched."""
    place.begin(goal="Count", budget=1_000_000)
    agentforge(place, "install", "codex")
    ask = in_codex("ask", {**QUESTION, "wait": False})
    asked = {"tools": [ask], "usage": {"input": 60_000, "output": 20}}
    place.model.script.when(OFFERED_TO_CODEX, asked, *[{"text": "asked"}] * 3)
    place.model.script.add(*[WAIT_IN_CODEX] * 300)
    place.run(codex_command("-c", "model_auto_compact_token_limit=50000", "Ask"))
    question_id = _question(place)
    last = place.model.requests[-1]
    assert f"question {question_id}, asked by the agent: " in json.dumps(last)
    assert '"name": "ask"' not in json.dumps(last["input"]), "the context was compacted"

    agentforge(place, "answer", question_id, "--select", "SQLite")
    fetch = in_codex("ask", {"id": question_id})
    place.model.script.clear()
    place.model.script.when(OFFERED_TO_CODEX, {"tools": [fetch]}, {"text": "noted"})
    place.model.script.add(*[WAIT_IN_CODEX] * 300)
    place.run(codex_command("resume", "--last", "Go on"))
    assert "SQLite" in json.dumps(place.model.requests[-1]["input"][-1])


def test_a_question_from_inside_claude_code_outlives_a_compaction(place: Workplace) -> None:
    session_id = place.begin(goal="Count")
    agentforge(place, "install", "claude-code")
    ask = f"{IN_CLAUDE}ask"
    call = {"name": ask, "input": {**QUESTION, "wait": False}}
    place.model.script.when(f'"name": "{ask}"', {"tools": [call]}, {"text": "asked"})
    wait = {"name": "Bash", "input": {"command": "sleep 1"}}
    place.model.script.add(*[{"tools": [wait]}] * 300)
    allowed = ("--allowedTools", f"{IN_CLAUDE}*,{ask},Bash")
    first = place.claude("Ask", *allowed, ENABLE_TOOL_SEARCH="false")
    place.model.script.clear()
    place.claude("/compact", "--resume", first["session_id"])
    agentforge(place, "answer", _question(place), "--select", "SQLite")

    fetch = f"{IN_CLAUDE}ask"
    call = {"name": fetch, "input": {"id": _question(place)}}
    place.model.script.when(f'"name": "{fetch}"', {"tools": [call]}, {"text": "noted"})
    place.model.script.add(*[{"tools": [wait]}] * 300)
    asked = len(place.model.requests)
    options = ("--resume", first["session_id"], "--allowedTools", f"{fetch},Bash")
    place.claude("Go on", *options, ENABLE_TOOL_SEARCH="false")
    briefed = json.dumps(place.model.requests[asked])
    assert f"question {_question(place)}, asked by the agent: " in briefed
    assert "SQLite" in json.dumps(_tool_results(place.model.requests[-1])[-1])
    actions = [entry.action for entry in place.session(session_id).history]
    assert actions.index("question_asked") < actions.index("agent_compacted")
    assert actions.index("agent_compacted") < actions.index("question_answered")


def test_a_question_from_inside_opencode_outlives_a_compaction(place: Workplace) -> None:
    place.configure_opencode(context=100_000)
    session_id = place.begin(goal="Count", budget=1_000_000)
    agentforge(place, "install", "opencode")
    call = {"name": "agentforge_ask", "input": {**QUESTION, "wait": False}}
    place.model.script.when("anchored summary", {"text": "SUMMARY"})
    asked = {"tools": [call], "usage": {"input": 98_000, "output": 10}}
    place.model.script.when('"name": "agentforge_ask"', asked, {"text": "asked"})
    place.opencode("Ask")
    briefed = [one for one in place.model.requests if briefings(one)][-1]
    assert f"question {_question(place)}, asked by the agent: " in json.dumps(briefed["system"])
    assert "SUMMARY" in json.dumps(briefed)

    agentforge(place, "answer", _question(place), "--select", "SQLite")
    call = {"name": "agentforge_ask", "input": {"id": _question(place)}}
    fetch = {"tools": [call]}
    place.model.script.when('"name": "agentforge_ask"', fetch, {"text": "noted"})
    place.opencode("Go on", "--continue")
    assert "SQLite" in json.dumps(place.model.requests[-1]["messages"][-1])
    assert _of_questions(place, session_id) == ["question_asked", "question_answered"]


def test_a_question_from_inside_gemini_outlives_a_compression(place: Workplace) -> None:
    """The gate makes the second message, before which the program compresses."""
    place.configure_gemini()
    place.configure_gate()
    session_id = place.begin(goal="Count", budget=2_000_000)
    agentforge(place, "install", "gemini")
    summary = {"text": "<state_snapshot>SUMMARY</state_snapshot>"}
    place.model.script.when("Generate a new <state_snapshot>", summary)
    place.model.script.when("Critically evaluate the <state_snapshot>", summary)
    ask = "mcp_agentforge_ask"
    place.model.script.when(
        f'"name": "{ask}"',
        {"tools": [{"name": ask, "input": {**QUESTION, "wait": False}}]},
        {"text": "Asked; nothing else is left.", "usage": {"input": 900_000, "output": 500}},
        {"tools": [{"name": "write_file", "input": {"file_path": "fixed", "content": "x"}}]},
        {"text": "Now it is"},
    )
    place.gemini("Ask")
    waiting = _question(place)[:8]
    after = [one for one in place.model.requests if one.get("tools")][2]
    assert "SUMMARY" in json.dumps(after)
    assert f"question {waiting}, asked by the agent: " in json.dumps(after)

    agentforge(place, "answer", waiting, "--select", "SQLite")
    call = {"name": ask, "input": {"id": waiting}}
    place.model.script.when(f'"name": "{ask}"', {"tools": [call]}, {"text": "noted"})
    place.gemini("Go on", "--resume", "latest")
    assert "SQLite" in json.dumps(place.model.requests[-1]["contents"][-1])
    assert _of_questions(place, session_id) == ["question_asked", "question_answered"]


@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_tools_skill_and_commands_are_loaded_a_question_is_answered_and_all_goes_again(
    place: Workplace, name: str
) -> None:
    """The answer of another process is in the next request of the same turn."""
    is_gemini = name == "gemini"
    (place.configure_gemini if is_gemini else place.configure_opencode)()
    before = _files(place.home)
    agentforge(place, "install", name)
    if is_gemini:  # in `-p` no command is seen behind a briefing; the prompt begins the session
        place.gemini("/agentforge:brief")
        (session_id,) = place.store.list_sessions()
    else:
        session_id = place.begin(goal="Count")
    prefix = "mcp_agentforge_" if is_gemini else "agentforge_"
    tools = [
        {"name": f"{prefix}checkpoint", "input": {"note": "Bytes, not words."}},
        {"name": f"{prefix}ask", "input": QUESTION},
    ]
    place.model.script.when(f'"name": "{prefix}ask"', {"tools": tools}, {"text": "noted"})
    out = _answered(place, [program(name), *_COMMANDS[name]])
    assert "noted" in out
    asked = [one for one in place.model.requests if one.get("tools")]
    assert "show me its text as it is" in json.dumps(asked[0])
    assert "How to work in an AgentForge session" in json.dumps(asked[0])
    assert "SQLite" in json.dumps(asked[-1].get("messages", asked[-1].get("contents"))[-1])
    recorded = [e.details for e in place.session(session_id).history if e.action == "noted"]
    assert recorded == ["Bytes, not words."]
    assert _of_questions(place, session_id) == ["question_asked", "question_answered"]

    agentforge(place, "install", "--remove", name)
    left = {path for path in _files(place.home) - before if "agentforge" in path.lower()}
    work = ("sessions", "conversations", "projects", "spending.db")  # it stays
    assert {one for one in left if one.split("/")[3] not in work} == set()


@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_a_projects_own_files_are_loaded_and_are_as_before_when_taken_away(
    place: Workplace, name: str
) -> None:
    (place.configure_gemini if name == "gemini" else place.configure_opencode)()
    settings = place.project / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  // mine\n  "ui": {"hideTips": true} /* and this */\n}\n')
    if name == "opencode":
        types = place.home / ".config" / "opencode"
        (place.project / ".opencode").mkdir()
        for one in ("node_modules", "package.json", "package-lock.json"):
            (place.project / ".opencode" / one).symlink_to(types / one)
    place.begin(goal="Count")
    before = {one: (place.project / one).read_bytes() for one in _files(place.project)}
    agentforge(place, "install", name, "--scope", "project")
    (place.gemini if name == "gemini" else place.opencode)("Go")
    assert max(map(briefings, place.model.requests)) == 1
    agentforge(place, "install", "--remove", name, "--scope", "project")
    assert settings.read_bytes() == before[".gemini/settings.json"]
    left = {one for one in _files(place.project) - before.keys() if "agentforge" in one}
    assert all(one.startswith(".agentforge/") for one in left)


_COMMANDS = {
    "gemini": (
        *("-p", "Ask", "-o", "json", "--approval-mode", "yolo"),
        *("-m", "gemini-2.5-flash"),
    ),
    "opencode": ("run", "--format", "json", "--auto", "--command", "agentforge/brief"),
}


def _files(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def _tool_results(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def _answered(place: Workplace, command: list[str | Path], **more: str) -> str:
    """Answer the question as soon as the program has asked it, and return what it prints."""
    with place.running(command, **more) as process:
        wait_until(lambda: process.poll() is not None or _asked(place), patience_s=PATIENCE_S)
        agentforge(place, "answer", _question(place), "--select", "SQLite")
        out, _ = process.communicate(timeout=PATIENCE_S)
    return out


def _asked(place: Workplace) -> list[str]:
    questions = place.project / ".agentforge" / "questions"
    return [one.parent.name for one in questions.glob("[!.]*/request.json")]


def _question(place: Workplace) -> str:
    (found,) = _asked(place)
    return found


def _of_questions(place: Workplace, session_id: str) -> list[str]:
    actions = [entry.action for entry in place.session(session_id).history]
    return [one for one in actions if one.startswith("question_")]
