"""The hooks for the Claude Agent SDK, called as the SDK does it; then Claude Code itself.

The SDK brings the program, so it has an environment of its own; see CONTRIBUTING.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.agents.hooks.binding import Binding
from agentforge_sessions.base.files import Patience
from agentforge_sessions.harness import SessionState
from agentforge_sessions.harness.domain.history_events import AgentStarted
from tests.support.agent_conversations import Conversation, Project
from tests.support.late import LateModule
from tests.support.real_agents import Workplace, briefings, warnings
from tests.support.scripted_model import scripted_model

if TYPE_CHECKING:
    import claude_agent_sdk as sdk
    from claude_agent_sdk import types

    from agentforge_sessions.integrations.bridges import claude_agent_sdk as bridge
else:
    sdk, types = LateModule("claude_agent_sdk"), LateModule("claude_agent_sdk.types")
    bridge = LateModule("agentforge_sessions.integrations.bridges.claude_agent_sdk")


def is_installed() -> bool:
    try:
        version("claude-agent-sdk")
    except PackageNotFoundError:
        return False
    return True


pytestmark = pytest.mark.skipif(not is_installed(), reason="claude-agent-sdk is not installed")


class Led(Conversation):
    """A conversation that a program leads: its events go to the hooks that the SDK was given."""

    def __init__(self, project: Project, **options: Any) -> None:
        super().__init__(project)
        self.options = bridge.recorded(sdk.ClaudeAgentOptions(cwd=project.folder, **options))

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        """Call the last hook of an event, and return its answer."""
        hooks: Any = self.options.hooks
        called = hooks[event][-1].hooks[0](self.payload(event, **fields), None, {"signal": None})
        found = asyncio.run(called)
        assert set(found) <= set(types.SyncHookJSONOutput.__annotations__), "names of the SDK"
        answer: dict[str, Any] = json.loads(json.dumps(found))
        return answer


def text_of(answer: dict[str, Any]) -> str:
    given = answer.get("hookSpecificOutput", {"hookEventName": "UserPromptSubmit"})
    assert given["hookEventName"] == "UserPromptSubmit"
    return str(given.get("additionalContext", ""))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_the_first_prompt_brings_the_start_and_its_briefing_and_no_later_one_does(
    project: Project,
) -> None:
    session_id = project.begin(goal="Count the words")
    talk = Led(project)
    answer = talk.prompt("Count them")
    assert f"session {session_id[-4:]}: 'Count the words'" in answer["systemMessage"]
    first = text_of(answer)
    assert first.startswith("AgentForge session briefing, revision 2 of")
    assert "Goal: “Count the words" in first
    assert text_of(talk.prompt("Go on")) == ""
    happened = project.actions(session_id)
    assert happened == ["session_created", "agent_started", "agent_prompted", "agent_prompted"]


def test_a_project_without_a_session_gets_one_whose_goal_is_the_first_prompt(
    project: Project,
) -> None:
    talk = Led(project)
    said = talk.prompt("Count the words")["systemMessage"]
    (session_id,) = project.store.list_sessions()
    assert project.session(session_id).goal == "Count the words"
    assert f"session {session_id[-4:]}: 'Count the words'" in said


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, "startup"),
        ({"resume": "conversation-1"}, "resume"),
        ({"continue_conversation": True}, "resume"),
        ({"resume": "conversation-0", "fork_session": True}, "fork"),
    ],
)
def test_the_start_has_the_source_that_the_options_name(
    project: Project, options: dict[str, Any], source: str
) -> None:
    session_id = project.begin()
    Led(project, **options).prompt()
    (found,) = [
        one.event
        for one in project.session(session_id).history
        if isinstance(one.event, AgentStarted)
    ]
    assert found.source == source


def test_a_new_context_after_a_compaction_has_its_briefing_from_its_own_event(
    project: Project,
) -> None:
    project.begin()
    talk = Led(project)
    talk.prompt()
    talk.hook("PreCompact", trigger="auto", custom_instructions=None)
    answer = talk.hook("SessionStart", source="compact")
    assert "session briefing, revision" in answer["hookSpecificOutput"]["additionalContext"]
    talk.hook("PostCompact", trigger="auto", compact_summary="Counted")
    assert text_of(talk.prompt()) == ""


def test_a_cleared_conversation_has_the_start_that_its_own_event_reported(project: Project) -> None:
    session_id = project.begin()
    talk = Led(project)
    talk.prompt()
    talk.name = "conversation-2"
    talk.hook("SessionStart", source="clear")
    assert text_of(talk.prompt()) == ""
    assert project.actions(session_id).count("agent_started") == 2


def test_what_the_model_spent_is_charged_once_and_a_spent_budget_stops_the_agent(
    project: Project,
) -> None:
    session_id = project.begin(budget=1_000)
    talk = Led(project)
    talk.prompt()
    talk.spend(600)
    assert talk.use_tool() == ({}, {})
    talk.spend(500)
    before, _ = talk.use_tool()
    assert before["continue_"] is False
    assert "budget" in before["stopReason"]
    assert before["hookSpecificOutput"]["permissionDecision"] == "deny"
    session = project.session(session_id)
    assert (session.token_budget.tokens_used, session.state) == (1_100, SessionState.PAUSED)
    assert talk.prompt()["decision"] == "block"


def test_the_end_of_a_turn_waits_until_its_last_message_is_written(project: Project) -> None:
    talk, pauses = Conversation(project), 0

    def message(kind: str, *texts: str) -> dict[str, Any]:
        blocks = [{"type": "text", "text": text} for text in texts]
        return {"type": kind, "message": {"content": blocks}}

    def written(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        talk.write(*([message("assistant", "done \n"), {"type": "mode"}] if pauses == 2 else []))

    talk.write(message("assistant", "done"), {"type": "user", "message": {"content": "again"}})
    patience = Patience(10, monotonic=lambda: 0.0, sleep=written)
    bridge.wait_for_message(str(talk.transcript), "So it is done", patience)
    assert pauses == 2


def test_a_turn_whose_message_is_not_written_ends_all_the_same(project: Project) -> None:
    talk, times = Conversation(project), iter(range(100))
    talk.write({"type": "user", "message": {"content": "again"}})
    patience = Patience(10, monotonic=lambda: float(next(times)), sleep=lambda _: None)
    bridge.wait_for_message(str(talk.transcript), "done", patience)
    assert next(times) == 11
    bridge.wait_for_message(str(talk.transcript / "nowhere"), "done", patience)
    assert next(times) == 12, "it has no file to wait for"


def test_a_briefing_that_a_refused_prompt_could_not_bring_comes_with_the_next(
    project: Project,
) -> None:
    session_id = project.begin(budget=1_000)
    first = Led(project)
    first.prompt()
    first.spend(1_000)
    first.hook("Stop")

    talk = Led(project)
    talk.name = "conversation-2"
    assert talk.prompt()["decision"] == "block"
    project.open(session_id).extend_budget(100_000)
    assert "session briefing, revision" in text_of(talk.prompt())


def test_the_process_of_the_conversation_is_the_program_that_leads_it(project: Project) -> None:
    project.begin()
    Led(project).prompt()
    (found,) = project.conversations.rglob("binding.json")
    assert Binding(json.loads(found.read_bytes())).process[0] == os.getpid()


def test_a_hook_that_fails_is_logged_and_answers_nothing(project: Project) -> None:
    project.begin()
    talk = Led(project, env={"AGENTFORGE_SESSION": "session_20260301_093000_999999"})
    with capture_logs() as logged:
        assert talk.hook("Stop") == {}
    (one,) = logged
    assert (one["event"], one["hook"]) == ("hook.failed", "Stop")
    assert one["problem"].startswith("SessionNotFound: there is no session session_2026")


def test_the_programs_own_hooks_stay_and_an_installed_hook_of_ours_is_silent() -> None:
    async def own(*_: object) -> Any:
        return {}

    matcher = sdk.HookMatcher(matcher="Bash", hooks=[own])
    given = sdk.ClaudeAgentOptions(hooks={"PreToolUse": [matcher]}, env={"A": "b"})
    found = bridge.recorded(given)
    assert found.hooks is not None
    assert found.hooks["PreToolUse"][0] is matcher
    assert len(found.hooks["PreToolUse"]) == 2
    assert found.env == {"A": "b", "AGENTFORGE_CALL": "1"}
    assert given.hooks == {"PreToolUse": [matcher]}
    assert given.env == {"A": "b"}


# ------------------------------------------------------------------------------ Claude Code itself

PROGRAM = """
import asyncio, json, sys
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage
from agentforge_sessions.integrations.bridges.claude_agent_sdk import recorded

async def main():
    options = ClaudeAgentOptions(permission_mode="acceptEdits", allowed_tools=["Bash"])
    async with ClaudeSDKClient(recorded(options)) as client:
        for words in sys.argv[1:]:
            await client.query(words)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    print(json.dumps({"session": message.session_id}), flush=True)

asyncio.run(main())
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)


def shell() -> dict[str, object]:
    return {"name": "Bash", "input": {"command": "true"}}


@pytest.mark.real_agents
@pytest.mark.timeout(400)
def test_claude_code_itself_is_recorded_charged_briefed_once_and_stopped_at_the_budget(
    place: Workplace,
) -> None:
    place.hook_claude()  # as installed; silent here
    session_id = place.begin(budget=5_000, goal="Count the words")
    write = {
        "name": "Write",
        "input": {"file_path": str(place.project / "made.txt"), "content": "x"},
    }
    place.model.script.add(
        {"text": "at work", "tools": [write], "usage": {"input": 1_000, "output": 50}},
        {"text": "Counted.", "usage": {"input": 700, "output": 30, "cached": 200}},
        {"text": "Counted.", "usage": {"input": 300, "output": 20}},
    )
    place.run([sys.executable, "-c", PROGRAM, "Count them", "Again"])
    assert [briefings(one) for one in place.model.requests] == [1, 1, 1]
    session = place.session(session_id)
    assert session.token_budget.tokens_used == 2_300, "as the model's server counted"
    happened = [entry.action for entry in session.history]
    assert (happened.count("agent_started"), happened.count("agent_prompted")) == (1, 2)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [("made.txt", "created")]

    usages = [{"input": 2_500, "output": 50}, *[{"input": 490, "output": 10}] * 10]
    place.model.script.add(*[{"tools": [shell()], "usage": usage} for usage in usages])
    before = len(place.model.requests)
    place.run([sys.executable, "-c", PROGRAM, "Go on", "And on"])
    asked = place.model.requests[before:]
    assert 2 <= len(asked) <= 3, "at most one after the one that spent it"
    assert warnings(asked[-1]) == 1
    assert place.session(session_id).state is SessionState.PAUSED
