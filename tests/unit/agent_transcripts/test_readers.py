"""What the readers find in files that the real programs wrote, in runs against a scripted model.

`tests/data/transcripts` has the lines that matter, without what no reader looks at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.transcripts import claude_code, codex, gemini, opencode
from agentforge_sessions.agents.transcripts.entries import TranscriptEntry, joined

DATA = Path(__file__).parents[2] / "data" / "transcripts"


def read(name: str) -> list[TranscriptEntry]:
    reader = {"claude_code": claude_code, "codex": codex, "gemini": gemini}[
        name.removesuffix("_child")
    ]
    lines = (DATA / f"{name}.jsonl").read_bytes().splitlines()
    assert all(any(word in line for word in reader.WANTED) for line in lines)
    return joined(entry for line in lines for entry in reader.entries_of(json.loads(line)))


def of_kind(entries: list[TranscriptEntry], kind: str) -> list[dict[str, Any]]:
    return [one.body for one in entries if one.kind == kind]


def tool(entries: list[TranscriptEntry], name: str) -> dict[str, Any]:
    return next(one for one in of_kind(entries, "tool") if one["name"] == name)


@pytest.mark.parametrize(
    ("name", "asked"), [("claude_code", "Count them"), ("codex", "Count"), ("gemini", "Count")]
)
def test_what_the_person_and_the_agent_said_is_found_without_the_programs_own_texts(
    name: str, asked: str
) -> None:
    found = read(name)
    assert of_kind(found, "user") == [{"text": asked}]
    said = [one["text"] for one in of_kind(found, "agent")]
    assert said[0] == "at work"
    assert "Counted; decided for bytes." in said
    assert len({one.id for one in found}) == len(found)
    assert all(one.at.startswith("2026-11-27T") for one in found)


@pytest.mark.parametrize(
    ("name", "shell", "output"),
    [
        ("claude_code", "Bash", "hi\nbad"),
        ("codex", "exec_command", "hi\n"),
        ("gemini", "run_shell_command", "hi"),
    ],
)
def test_a_command_has_its_input_its_output_and_its_exit_code(
    name: str, shell: str, output: str
) -> None:
    found = tool(read(name), shell)
    assert found["input"].startswith("echo hi;")
    assert (found["result"], found["exit_code"], found["is_error"]) == (output, 3, True)


@pytest.mark.parametrize("name", ["claude_code", "codex", "gemini"])
def test_an_edit_is_a_diff(name: str) -> None:
    edits = of_kind(read(name), "edit")
    assert edits[0]["path"].endswith("/made.txt") or edits[0]["path"] == "made.txt"
    assert edits[0]["diff"].rstrip() == "@@ -0,0 +1,2 @@\n+x\n+y"
    if name != "codex":
        assert edits[1]["diff"].rstrip() == "@@ -1,2 +1,2 @@\n-x\n+z\n y"


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_plan_has_its_steps_and_what_became_of_them(name: str) -> None:
    assert of_kind(read(name), "plan") == [
        {
            "items": [
                {"text": "one", "status": "completed"},
                {"text": "two", "status": "in_progress"},
            ]
        }
    ]


def claude_tool(result: dict[str, Any]) -> list[dict[str, Any]]:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
    line = {"type": "user", "uuid": "u", "message": {"content": content}, "toolUseResult": result}
    return of_kind(list(claude_code.entries_of(line)), "plan")


def test_the_plan_of_claude_code_is_a_list_or_one_step_at_a_time() -> None:
    todos = [{"content": "one", "status": "completed", "activeForm": "doing one"}]
    assert claude_tool({"oldTodos": [], "newTodos": todos}) == [
        {"items": [{"text": "one", "status": "completed"}]}
    ]
    assert claude_tool({"task": {"id": "1", "subject": "one"}}) == [
        {"items": [{"text": "one", "status": "pending", "id": "1"}]}
    ]
    change = {"success": True, "taskId": "1", "statusChange": {"from": "pending", "to": "done"}}
    assert claude_tool(change) == [{"items": [{"text": "", "status": "done", "id": "1"}]}]


@pytest.mark.parametrize(
    ("name", "first", "total"),
    [
        ("claude_code", {"input": 1000, "cache_read": 200, "output": 50}, 2610),
        ("codex", {"input": 800, "cache_read": 200, "output": 50}, 63_350),
        ("gemini", {"input": 800, "cache_read": 200, "output": 50}, 2300),
    ],
)
def test_usage_is_that_of_each_request_once_by_kind(
    name: str, first: dict[str, int], total: int
) -> None:
    found = of_kind(read(name), "usage")
    assert {kind: found[0][kind] for kind in first} == first
    counts = [
        sum(n for kind, n in one.items() if kind not in {"model", "reasoning"}) for one in found
    ]
    assert sum(counts) == total


@pytest.mark.parametrize(("name", "summary"), [("claude_code", "summary text"), ("codex", "done")])
def test_a_compaction_is_found_with_its_summary(name: str, summary: str) -> None:
    (found,) = of_kind(read(name), "compaction")
    assert summary in found["text"]


def test_the_summary_of_gemini_is_in_the_history_that_it_sets() -> None:
    content = [{"text": "<state_snapshot>half done</state_snapshot>"}]
    history = [{"id": "a", "type": "user", "content": content}, {"id": "b", "type": "user"}]
    found = list(gemini.entries_of({"$set": {"messages": history}}))
    assert [(one.kind, one.body) for one in found] == [("compaction", {"text": "half done"})]


@pytest.mark.parametrize("name", ["claude_code_child", "codex_child"])
def test_the_file_of_a_sub_agent_is_read_alike(name: str) -> None:
    found = read(name)
    assert of_kind(found, "user") == [{"text": "SUBTASK"}]
    assert of_kind(found, "agent") == [{"text": "sub done"}]


def test_the_parts_of_opencode_are_entries_of_the_conversation_and_of_its_sub_agents() -> None:
    parts = [
        {"type": "user", "id": "m1", "at": 0, "sessionID": "s", "text": "Count"},
        {"type": "text", "id": "p1", "at": 0, "sessionID": "child", "text": "at work"},
        {
            "type": "tool",
            "id": "c1",
            "tool": "bash",
            "input": {"command": "false"},
            "status": "completed",
            "output": "hi",
            "exit": 3,
            "files": [{"path": "made.txt", "diff": "@@ -0,0 +1 @@\n+x"}],
        },
        {
            "type": "todos",
            "id": "t1",
            "todos": [{"id": "1", "content": "one", "status": "pending"}],
        },
        {"type": "usage", "id": "m2", "tokens": {"input": 5, "cache": {"read": 2}}},
    ]
    found = list(opencode.entries_of(parts, "s"))
    assert [(one.kind, one.child) for one in found[:2]] == [("user", ""), ("agent", "child")]
    assert found[0].at == "1970-01-01T00:00:00+00:00"
    (command,) = of_kind(joined(found), "tool")
    assert command == {
        "name": "bash",
        "input": "false",
        "result": "hi",
        "exit_code": 3,
        "is_error": True,
    }
    assert of_kind(found, "edit") == [{"path": "made.txt", "diff": "@@ -0,0 +1 @@\n+x"}]
    assert of_kind(found, "plan") == [{"items": [{"text": "one", "status": "pending"}]}]
    assert [(one["input"], one["cache_read"]) for one in of_kind(found, "usage")] == [(5, 2)]
