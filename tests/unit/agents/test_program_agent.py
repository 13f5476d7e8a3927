"""Agent programs by name: no tools, an empty folder, what they report, and why they ended."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.running.printed_output import (
    read_claude_output,
    read_codex_output,
    read_gemini_output,
    read_opencode_output,
)
from agentforge_sessions.agents.running.program import COMMANDS, ProgramAgent
from agentforge_sessions.workflows.agents.choice import (
    PROGRAMS,
    check_agent,
    make_agent,
    parse_agent,
)
from agentforge_sessions.workflows.agents.port import (
    AgentCrashed,
    AgentFailed,
    AgentRequest,
    AgentUnavailable,
)

CLAUDE: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "the answer",
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "modelUsage": {
        "big": {
            "inputTokens": 1000,
            "outputTokens": 50,
            "cacheReadInputTokens": 200,
            "cacheCreationInputTokens": 30,
        },
        "small": {"inputTokens": 7, "outputTokens": 3},
    },
}
CODEX = [
    {"type": "thread.started"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "thinking"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "the answer"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1237, "output_tokens": 53}},
]
GEMINI = {
    "response": "the answer",
    "stats": {
        "models": {
            "big": {"tokens": {"prompt": 1230, "candidates": 40, "thoughts": 10, "cached": 200}},
            "small": {"tokens": {"prompt": 7, "candidates": 3}},
        }
    },
}
TOKENS = {"input": 1000, "output": 50, "reasoning": 3, "cache": {"read": 200, "write": 37}}
OPENCODE = [
    {"type": "step_start", "part": {}},
    {"type": "text", "part": {"text": "the answer"}},
    {"type": "step_finish", "part": {"tokens": TOKENS}},
]


def agent_request() -> AgentRequest:
    return AgentRequest(
        session_id="session_20260301_093000_000000",
        workflow="tdflow",
        phase="green",
        attempt=1,
        turn=1,
        call=1,
        briefing="",
        prompt="do it, größer",
        files={},
        tokens_left=1000,
        prompt_digest="",
    )


class Programs:
    """A folder of programs that print what a test says, and write down how they were run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": str(folder)}

    def add(self, name: str, printed: str, *, code: int = 0, errors: str = "") -> Path:
        ran = self.folder / f"{name}.json"
        program = self.folder / name
        program.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            "prompt = sys.stdin.read()\n"
            "facts = [sys.argv[1:], os.getcwd(), os.listdir(), prompt, dict(os.environ)]\n"
            f"open({str(ran)!r}, 'w').write(json.dumps(facts))\n"
            "open('left-behind', 'w').close()\n"
            f"sys.stderr.write({errors!r})\nsys.stdout.write({printed!r})\nsys.exit({code})\n"
        )
        program.chmod(0o755)
        return ran

    def agent(self, name: str) -> ProgramAgent:
        return ProgramAgent(name, environment=self.environment)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def lines(events: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in events)


def test_more_tokens_than_a_call_can_cost_do_not_cost_the_answer(programs: Programs) -> None:
    big = {**CLAUDE["modelUsage"]["big"], "inputTokens": 10**9}
    programs.add("claude", json.dumps({**CLAUDE, "modelUsage": {"big": big}}))
    answer = programs.agent("claude").answer(agent_request())
    assert (answer.text, answer.usage) == ("the answer", None)


PRINTED = [
    ("claude", json.dumps(CLAUDE)),
    ("codex", lines(CODEX)),
    ("gemini", json.dumps(GEMINI)),
    ("opencode", lines(OPENCODE)),
]


@pytest.mark.parametrize(("name", "printed"), PRINTED)
def test_the_answer_is_charged_as_the_program_reports(
    programs: Programs, name: str, printed: str
) -> None:
    programs.add(name, printed)
    answer = programs.agent(name).answer(agent_request())
    assert answer.text == "the answer"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (1237, 53)
    assert not answer.usage.estimated


@pytest.mark.parametrize(("name", "printed"), PRINTED)
def test_the_program_runs_in_an_empty_folder_that_is_removed_afterwards(
    programs: Programs, name: str, printed: str
) -> None:
    ran = programs.add(name, printed)
    request = agent_request()
    programs.agent(name).answer(request)
    _, folder, entries, prompt, environment = json.loads(ran.read_text())
    assert (entries, prompt) == ([".gemini"] if name == "gemini" else [], request.prompt)
    assert folder != os.getcwd()
    assert not Path(folder).exists()
    assert environment["AGENTFORGE_CALL"] == "1", "by which our hooks in it are silent"


def test_claude_has_no_tools_and_none_of_the_persons_settings(programs: Programs) -> None:
    ran = programs.add("claude", json.dumps(CLAUDE))
    programs.agent("claude:opus").answer(agent_request())
    arguments = json.loads(ran.read_text())[0]
    assert arguments == [
        *("-p", "--tools", "", "--setting-sources", "", "--strict-mcp-config"),
        *("--output-format", "json", "--model", "opus"),
    ]


def test_codex_can_only_read(programs: Programs) -> None:
    ran = programs.add("codex", lines(CODEX))
    programs.agent("codex:o3").answer(agent_request())
    arguments = json.loads(ran.read_text())[0]
    assert arguments == [
        *("exec", "--json", "-s", "read-only", "--skip-git-repo-check", "-m", "o3", "-")
    ]


def test_opencode_is_asked_as_an_agent_without_tools(programs: Programs) -> None:
    ran = programs.add("opencode", lines(OPENCODE))
    programs.agent("opencode:anthropic/opus").answer(agent_request())
    arguments, *_, environment = json.loads(ran.read_text())
    assert arguments == [
        *("run", "--pure", "--agent", "agentforge", "--title", "agentforge"),
        *("--format", "json", "--model", "anthropic/opus"),
    ]
    config = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    assert config["agent"]["agentforge"]["permission"] == {"*": "deny"}


def test_gemini_is_asked_without_extensions(programs: Programs) -> None:
    ran = programs.add("gemini", json.dumps(GEMINI))
    programs.agent("gemini:pro").answer(agent_request())
    arguments, *_, environment = json.loads(ran.read_text())
    assert arguments == ["-o", "json", "-e", "none", "--model", "pro"]
    assert environment["GEMINI_SYSTEM_MD"] == ".gemini/system.md"


def test_the_reason_of_an_end_and_its_cost_are_in_the_error(programs: Programs) -> None:
    failed = {**CLAUDE, "subtype": "error_max_turns", "is_error": True, "result": "Out of turns"}
    programs.add("claude", json.dumps(failed), code=1)
    with pytest.raises(AgentFailed, match=r"\(claude\) gave no answer: Out of turns") as caught:
        programs.agent("claude").answer(agent_request())
    assert caught.value.usage is not None
    assert caught.value.usage.total == 1290

    programs.add("codex", lines([{"type": "turn.failed", "error": {"message": "no key"}}]), code=1)
    with pytest.raises(AgentFailed, match="gave no answer: no key"):
        programs.agent("codex").answer(agent_request())

    error = {"name": "UnknownError", "data": {"message": "no model"}}
    programs.add("opencode", lines([{"type": "error", "error": error}]), code=1)
    with pytest.raises(AgentFailed, match="gave no answer: no model"):
        programs.agent("opencode").answer(agent_request())

    programs.add("gemini", json.dumps({**GEMINI, "response": "", "error": {"message": "too long"}}))
    with pytest.raises(AgentFailed, match="gave no answer: too long"):
        programs.agent("gemini").answer(agent_request())
    programs.add("gemini", json.dumps({**GEMINI, "response": "", "warnings": ["Loop detected"]}))
    with pytest.raises(AgentFailed, match=r"gave no answer: .*Loop detected"):
        programs.agent("gemini").answer(agent_request())


def test_a_crash_without_a_word_is_a_crash(programs: Programs) -> None:
    programs.add("claude", "", code=3, errors="it broke")
    with pytest.raises(AgentCrashed, match="it broke"):
        programs.agent("claude").answer(agent_request())


@pytest.mark.parametrize("printed", ["plain text", "[]", "{}", '{"result": 1'])
def test_something_else_than_its_json_is_no_answer(programs: Programs, printed: str) -> None:
    programs.add("claude", printed)
    with pytest.raises(AgentFailed, match="something else than its JSON"):
        programs.agent("claude").answer(agent_request())


def test_an_empty_answer_is_none(programs: Programs) -> None:
    programs.add("claude", json.dumps({**CLAUDE, "result": " "}))
    with pytest.raises(AgentFailed, match="it said nothing"):
        programs.agent("claude").answer(agent_request())


def test_a_program_that_is_not_there_is_found_out_before(programs: Programs) -> None:
    with pytest.raises(AgentUnavailable, match="there is no program claude"):
        check_agent(programs.agent("claude"))


@pytest.mark.parametrize(
    "text", ["claude", "claude:opus", "codex:gpt-5.5:high", "gemini:pro", "opencode:a/b"]
)
def test_a_name_is_a_program_and_is_made_again_from_its_choice(text: str) -> None:
    choice = parse_agent(text, timeout_s=5)
    assert (choice.kind, choice.value) == ("program", text)
    assert make_agent(choice).description == text


@pytest.mark.parametrize("text", ["claude -p", "claude:", "./claude", "claude-other"])
def test_anything_else_is_a_command_line(text: str) -> None:
    assert parse_agent(text).kind == "command"


@pytest.mark.parametrize("text", ["", "\n", '{"type": 3}\n{"type":"turn.started"}\nnoise'])
def test_output_without_an_end_is_none(text: str) -> None:
    assert read_codex_output(text) is None
    assert read_claude_output(text) is None
    assert read_gemini_output(text) is None
    assert read_opencode_output(text) is None
    assert set(COMMANDS) == set(PROGRAMS) == {"claude", "codex", "gemini", "opencode"}
