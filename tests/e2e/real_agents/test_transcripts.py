"""The transcript that a session has of each real program's conversation, and the state in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.transcripts.state import work_state
from agentforge_sessions.harness.domain.history_events import AgentPrompted
from tests.support.real_agents import Workplace, program
from tests.support.scripted_model import scripted_model
from tests.support.transcripts import Kept, said, transcript

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]

KEY = "sk-" + "ant-api03-" + "Zq9xV7b2" * 10
EDIT = "apply_patch <<'END'\n*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\nEND"


def claude(place: Workplace) -> None:
    place.hook_claude()


def gemini(place: Workplace) -> None:
    place.configure_gemini()
    place.install("gemini")


def opencode(place: Workplace) -> None:
    place.configure_opencode()
    place.install("opencode")


def command_of(name: str, command: str) -> dict[str, Any]:
    if name == "codex":
        return {"name": "exec_command", "input": {"cmd": command}}
    tool = {"claude-code": "Bash", "gemini": "run_shell_command", "opencode": "bash"}[name]
    return {"name": tool, "input": {"command": command, "description": "d"}}


def edit_of(name: str, place: Workplace) -> dict[str, Any]:
    path = str(place.project / "made.txt")
    match name:
        case "claude-code":
            return {"name": "Write", "input": {"file_path": path, "content": "x\n"}}
        case "gemini":
            return {"name": "write_file", "input": {"file_path": path, "content": "x\n"}}
        case "opencode":
            return {"name": "write", "input": {"filePath": path, "content": "x\n"}}
        case _:
            return command_of(name, EDIT)


PROGRAMS: dict[str, tuple[Callable[[Workplace], None], Callable[[Workplace, str], Any]]] = {
    "claude-code": (claude, lambda p, text: p.claude(text, "--allowedTools", "Bash,Write")),
    "codex": (Workplace.hook_codex, Workplace.codex),
    "gemini": (gemini, Workplace.gemini),
    "opencode": (opencode, Workplace.opencode),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


def conversation(place: Workplace, session_id: str) -> tuple[str, str]:
    events = [one.event for one in place.session(session_id).history]
    (found,) = {(e.program, e.agent_session) for e in events if isinstance(e, AgentPrompted)}
    return found


def read(place: Workplace, session_id: str) -> list[Kept]:
    return transcript(place.store, session_id, *conversation(place, session_id))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turn_is_in_the_session_with_what_was_done_and_used_and_without_the_secret(
    place: Workplace, name: str
) -> None:
    prepare, run = PROGRAMS[name]
    prepare(place)
    session_id = place.begin()
    place.model.script.add(
        {
            "text": "at work",
            "tools": [edit_of(name, place), command_of(name, f"echo {KEY}; exit 3")],
            "usage": {"input": 1000, "output": 50},
        },
        {"text": "Counted; decided for bytes.", "usage": {"input": 700, "output": 30}},
    )
    run(place, f"Count. Never use awk. My key is {KEY}")
    found = read(place, session_id)
    mark = "[masked Anthropic key]"
    assert [(kind, text.strip('"')) for kind, text in said(found)] == [  # opencode quotes words
        ("user", f"Count. Never use awk. My key is {mark}"),
        ("agent", "at work"),
        ("agent", "Counted; decided for bytes."),
    ]
    assert {one.head["turn"] for one in found} == {1}
    (edit,) = [one.body for one in found if one.head["kind"] == "edit"]
    assert edit["path"].endswith("made.txt")
    assert edit["diff"].rstrip() == "@@ -0,0 +1,1 @@\n+x" or edit["diff"].rstrip().endswith("\n+x")
    usage = [one.body for one in found if one.head["kind"] == "usage"]
    assert sum(one["input"] + one["output"] for one in usage) == 1780

    state = work_state(place.store, session_id)
    assert state.instructions == ("Never use awk.",)
    assert state.failed is not None
    assert (state.failed.command, state.failed.exit_code) == (f"echo {mark}; exit 3", 3)
    assert state.failed.output.strip() == mark
    assert [one.text for one in state.decisions] == ["decided for bytes."]
    assert (state.prompt, state.program) == ("", name)

    files = [one for one in place.project.rglob("*") if one.is_file() and not one.is_symlink()]
    files += [one for one in (place.home / ".local").rglob("*agentforge*/**/*") if one.is_file()]
    assert not [one for one in files if KEY.encode() in one.read_bytes()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_killed_program_did_is_in_the_session_once_the_next_conversation_starts(
    place: Workplace, name: str
) -> None:
    prepare, _ = PROGRAMS[name]
    prepare(place)
    session_id = place.begin()
    place.model.script.add(
        {"text": "at work", "tools": [command_of(name, "echo hi; exit 3")]},
        {"text": "more", "tools": [command_of(name, "touch reached; sleep 60")]},
    )
    commands = {
        "claude-code": ["claude", "-p", "Count", "--allowedTools", "Bash,Write"],
        "codex": [
            *("codex", "exec", "--skip-git-repo-check", "-s", "workspace-write"),
            *("--dangerously-bypass-hook-trust", "Count"),
        ],
        "gemini": ["gemini", "-p", "Count", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"],
        "opencode": ["opencode", "run", "--auto", "Count"],
    }
    first, *options = commands[name]
    place.kill_at_work([program(first), *options])
    place.model.script.clear()
    other = "codex" if name != "codex" else "claude-code"
    PROGRAMS[other][0](place)
    PROGRAMS[other][1](place, "Go on")
    talks = [one.event for one in place.session(session_id).history]
    (agent_session,) = {
        one.agent_session for one in talks if isinstance(one, AgentPrompted) and one.program == name
    }
    found = transcript(place.store, session_id, name, agent_session)
    assert said(found)[:2] == [("user", "Count"), ("agent", "at work")]
    failed = [one.body for one in found if one.body.get("exit_code") == 3]
    assert [one["input"] for one in failed] == ["echo hi; exit 3"]
    ids = [one.head["id"] for one in found if not one.head.get("open")]
    assert len(ids) == len(set(ids))
