"""One whole briefing in a request, whatever became of the context, in each of the real programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.promptness import wait_until
from tests.support.real_agents import PATIENCE_S, Workplace, briefings, program
from tests.support.scripted_model import scripted_model

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]

Requests = list[dict[str, Any]]
PROMPT: Final = "Begin to count. Never push."
SAID: Final = "I decided to count bytes."
FAILS: Final = "echo IT-IS-RED && exit 3"
AT_WORK: Final = "touch reached; sleep 60"
_SUMMARY: Final = {"text": "<summary>SUMMARY: words.</summary>"}
_SNAPSHOT: Final = {"text": "<state_snapshot>SUMMARY: words.</state_snapshot>"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


def claude_code(place: Workplace) -> Requests:
    place.hook_claude()
    write = {"file_path": str(place.project / "made.txt"), "content": "x"}
    place.model.script.when("CRITICAL: Respond with TEXT ONLY", *[_SUMMARY] * 3)
    place.model.script.add(
        {
            "text": SAID,
            "tools": [
                {"name": "Write", "input": write},
                {"name": "Bash", "input": {"command": FAILS}},
            ],
            "usage": {"input": 190_000},
        },
        {"tools": [{"name": "Bash", "input": {"command": AT_WORK}}]},
    )
    limits = {
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50",
    }
    options = ("--model", "claude-sonnet-4-5", "--allowedTools", "Bash,Write")
    begin = [program("claude"), "-p", PROMPT, "--output-format", "json", *options]
    kill_at_work(place, begin, **limits)
    place.claude("Go on", "--continue", *options, **limits)
    return place.model.requests


def codex(place: Workplace) -> Requests:
    place.hook_codex()
    patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"
    made = f"apply_patch <<'EOF'\n{patch}EOF\n"
    place.model.script.when("CONTEXT CHECKPOINT COMPACTION", _SUMMARY)
    place.model.script.add(
        {
            "text": SAID,
            "tools": [
                {"name": "exec_command", "input": {"cmd": made}},
                {"name": "exec_command", "input": {"cmd": FAILS}},
            ],
            "usage": {"input": 100},
        },
        {"tools": [{"name": "exec_command", "input": {"cmd": "true"}}], "usage": {"input": 60_000}},
        {"tools": [{"name": "exec_command", "input": {"cmd": AT_WORK}}]},
    )
    limit = ["-c", "model_auto_compact_token_limit=50000"]
    options = ["-s", "workspace-write", "--dangerously-bypass-hook-trust", *limit]
    begin = [program("codex"), "exec", "--json", "--skip-git-repo-check", *options, PROMPT]
    kill_at_work(place, begin)
    place.codex("Go on", "resume", "--last", *limit)
    return place.model.requests


def opencode(place: Workplace) -> Requests:
    place.configure_opencode(context=100_000)
    place.install("opencode")
    write = {"filePath": str(place.project / "made.txt"), "content": "x"}
    true = {"command": "true", "description": "d"}
    place.model.script.when("anchored summary", _SUMMARY)
    place.model.script.add(
        {
            "text": SAID,
            "tools": [
                {"name": "write", "input": write},
                {"name": "bash", "input": {**true, "command": FAILS}},
            ],
            "usage": {"input": 98_000, "output": 10},
        },
        {"tools": [{"name": "bash", "input": {**true, "command": AT_WORK}}]},
    )
    kill_at_work(place, [program("opencode"), "run", "--format", "json", "--auto", PROMPT])
    place.opencode("Go on", "--continue")
    return [one for one in place.model.requests if "title generator" not in json.dumps(one)]


def gemini(place: Workplace) -> Requests:
    """The gate makes the second message, before which the program compresses."""
    place.configure_gemini()
    place.install("gemini")
    place.configure_gate()
    for word in ("Generate a new <state_snapshot>", "Critically evaluate the <state_snapshot>"):
        place.model.script.when(word, _SNAPSHOT)
    place.model.script.add(
        {
            "text": SAID,
            "tools": [
                {"name": "write_file", "input": {"file_path": "made.txt", "content": "x"}},
                {"name": "run_shell_command", "input": {"command": FAILS}},
            ],
        },
        {"text": "I am done, as far as I can see.", "usage": {"input": 900_000, "output": 500}},
        {"tools": [{"name": "run_shell_command", "input": {"command": AT_WORK}}]},
    )
    options = ["-o", "json", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"]
    kill_at_work(place, [program("gemini"), "-p", PROMPT, *options])
    (place.project / "fixed").touch()
    place.gemini("Go on", "--resume", "latest")
    return [one for one in place.model.requests if one.get("tools")]


def kill_at_work(place: Workplace, command: list[str | Path], **more: str) -> None:
    """Run a program until it is at work after its compaction, and kill it then."""
    reached = place.project / "reached"
    with place.running(command, **more) as process:
        wait_until(lambda: reached.exists() or process.poll() is not None, patience_s=PATIENCE_S)
    assert reached.exists(), "it ended instead"
    place.model.script.clear()


@pytest.mark.parametrize("conversation", [claude_code, codex, opencode, gemini])
def test_a_request_after_a_compaction_a_kill_and_a_restart_has_one_briefing(
    place: Workplace, conversation: Callable[[Workplace], Requests]
) -> None:
    session_id = place.begin(goal="Count the words", budget=5_000_000)
    requests = conversation(place)
    assert [briefings(one) for one in requests] == [1] * len(requests)
    last = json.dumps(requests[-1], ensure_ascii=False)
    assert "Go on" in last
    has = {
        "the goal": "Goal: “Count the words”",
        "the standing instruction": "by a person to [a-z-]+: “Never push",
        "the prompt": r"by a person to [a-z-]+, and not done: “\W*Begin to count",
        "the decision": "by the agent in [a-z-]+: “I decided to count bytes",
        "the failed command": "failed with exit code 3 in [a-z-]+: “echo IT-IS-RED",
        "its last line": "  - “.*IT-IS-RED",
        "the file": "- made.txt",
        "the budget": r"tokens (are )?left",
        "the session": f"# Session {session_id}: active",
        "the frame": "Nothing in it asks you for anything",
        "the summary of the compaction": "SUMMARY: words.",
        "the next step": "## Next step",
    }
    assert [what for what, text in has.items() if not re.search(text, last)] == []
