"""What a tool's event reports is recorded by a later event, unless a line of a budget is near."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.agents.ledger import Payer, opened
from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.fleet import stores
from agentforge_sessions.harness import SessionState
from tests.support.agent_conversations import (
    Conversation,
    GeminiConversation,
    OpencodeConversation,
    Project,
    Repository,
)
from tests.support.person import persons_folders


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


FIRST = 500
"""The tokens of a conversation's first charge, which never waits."""


def begun(talk: Conversation, session_id: str) -> Conversation:
    """Begin a conversation, with a first charge a second before the next event by the clock."""
    talk.start()
    if isinstance(talk, OpencodeConversation):
        talk.used(("m0", FIRST))
    else:
        talk.spend(FIRST)
        talk.hook("AfterTool" if isinstance(talk, GeminiConversation) else "PreToolUse")
    assert used(talk.project, session_id) == FIRST
    saved(talk.project, session_id)
    return talk


def saved(project: Project, session_id: str, *, seconds_ago: float = 0.0) -> None:
    """Set the clock to some time after the session was saved."""
    moment = os.stat(project.store.session_path(session_id)).st_mtime + 1.0
    project.clock.now = datetime.fromtimestamp(moment + seconds_ago, UTC)


def used(project: Project, session_id: str) -> int:
    return project.session(session_id).token_budget.tokens_used


def test_usage_of_tools_is_charged_once_by_the_end_of_the_turn(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    revision = project.session(session_id).revision
    for _ in range(3):
        talk.spend(1_000)
        assert talk.use_tool() == ({}, {})
    assert project.session(session_id).revision == revision
    talk.hook("Stop", last_assistant_message="Done.")
    assert used(project, session_id) == FIRST + 3_000
    assert project.actions(session_id).count("agent_usage") == 2
    talk.prompt()
    assert used(project, session_id) == FIRST + 3_000


def test_usage_is_charged_by_a_tool_half_a_minute_after_the_last_save(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    talk.spend(1_000)
    saved(project, session_id, seconds_ago=27.5)
    talk.hook("PreToolUse", tool_name="Bash", tool_input={})
    assert used(project, session_id) == FIRST
    talk.hook("PostToolUse", tool_name="Bash", tool_input={})
    assert used(project, session_id) == FIRST + 1_000


def test_a_clock_that_is_behind_records_at_once(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    talk.spend(1_000)
    saved(project, session_id, seconds_ago=-10.0)
    talk.use_tool()
    assert used(project, session_id) == FIRST + 1_000


@pytest.mark.parametrize("tokens", [0, 1_000])
def test_what_was_to_be_recorded_later_is_recorded_once_by_a_fresh_conversation(
    project: Project, tokens: int
) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    if tokens:
        talk.spend(tokens)
    made = project.folder / "made.py"
    made.write_text("made = True\n")
    talk.use_tool("Write", file_path=str(made), response={"type": "create"})
    assert "agent_edited" not in project.actions(session_id)
    for name in ("conversation-2", "conversation-3"):  # the first one was killed
        Conversation(project, name).start()
        assert used(project, session_id) == FIRST + tokens
        assert project.actions(session_id).count("agent_edited") == 1


def test_what_was_noted_is_recorded_by_a_tool_half_a_minute_later(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    made = project.folder / "made.py"
    made.write_text("made = True\n")
    talk.use_tool("Write", file_path=str(made), response={"type": "create"})
    talk.use_tool()
    assert "agent_edited" not in project.actions(session_id)
    saved(project, session_id, seconds_ago=30.0)
    talk.use_tool()
    talk.use_tool()
    assert project.actions(session_id).count("agent_edited") == 1


@pytest.mark.parametrize("ends", ["prompt", "fresh"])
def test_usage_that_only_events_report_is_noted_and_charged_once(
    project: Project, ends: str
) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = OpencodeConversation(project, "ses_1")
    begun(talk, session_id)
    talk.used(("m1", 1_000))
    talk.used(("m1", 1_200), ("m2", 300))
    assert used(project, session_id) == FIRST
    for _ in range(2):
        if ends == "prompt":
            talk.prompt()
        else:
            OpencodeConversation(project, "ses_2").start()
        assert used(project, session_id) == FIRST + 1_500


def test_an_answer_of_gemini_that_is_in_no_file_is_charged_after_a_kill(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = GeminiConversation(project)
    begun(talk, session_id)
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 100, "totalTokenCount": 1_000}
    talk.hook("AfterModel", llm_request={}, llm_response={"usageMetadata": usage})
    assert used(project, session_id) == FIRST
    GeminiConversation(project, "1a1b2c3d-0000-4000-8000-000000000000").start()
    assert used(project, session_id) == FIRST + 1_000


def test_an_edited_file_is_recorded_once_by_the_end_of_the_turn(project: Project) -> None:
    session_id = project.begin()
    talk = begun(Conversation(project), session_id)
    made = project.folder / "made.py"
    for number in range(3):
        made.write_text(f"number = {number}\n")
        kind = "create" if number == 0 else "update"
        talk.use_tool("Write", file_path=str(made), response={"type": kind})
    assert "agent_edited" not in project.actions(session_id)
    talk.hook("Stop", last_assistant_message="Done.")
    session = project.session(session_id)
    assert project.actions(session_id).count("agent_edited") == 1
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [("made.py", "created")]


def test_what_waits_is_recorded_in_the_session_that_it_was_done_for(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    talk = Conversation(repository)
    talk.prompt("on the main branch")
    (first,) = repository.store.list_sessions()
    begun(talk, first)
    talk.spend(1_000)
    made = repository.folder / "made.py"
    made.write_text("made = True\n")
    talk.use_tool("Write", file_path=str(made), response={"type": "create"})
    assert "agent_edited" not in repository.actions(first)
    repository.check_out("topic")
    talk.prompt("on the topic")
    (second,) = {*repository.store.list_sessions()} - {first}
    assert "agent_edited" in repository.actions(first)
    assert "agent_edited" not in repository.actions(second)
    assert (used(repository, first), used(repository, second)) == (FIRST + 1_000, 0)


def test_a_tool_at_a_line_of_the_budget_records_at_once_and_the_agent_stops(
    project: Project,
) -> None:
    session_id = project.begin(budget=100_000)
    talk = begun(Conversation(project), session_id)
    talk.spend(7_400)
    assert talk.use_tool() == ({}, {})
    assert used(project, session_id) == FIRST
    talk.spend(72_100)  # 80 %
    _, after = talk.use_tool()
    assert "80" in after["hookSpecificOutput"]["additionalContext"]
    assert used(project, session_id) == 80_000
    saved(project, session_id)
    talk.spend(20_000)
    before, _ = talk.use_tool()
    assert before["continue"] is False
    assert project.session(session_id).state is SessionState.PAUSED


def test_ten_conversations_of_a_session_do_not_pass_its_budget_unseen(project: Project) -> None:
    session_id = project.begin(budget=100_000)
    talks = [Conversation(project, f"conversation-{number}") for number in range(10)]
    for talk in talks:
        talk.start()
        talk.spend(FIRST)
        talk.use_tool()
    for talk in talks:
        talk.use_tool()
    saved(project, session_id)
    stops = []
    for talk in talks:
        talk.spend(10_000 - FIRST)
        stops.append(talk.use_tool()[0].get("continue"))
    assert used(project, session_id) == 100_000
    assert stops == [None] * 9 + [False]


def limited(talk: Conversation, tmp_path: Path, limits: str) -> None:
    folder = tmp_path / "config" / "agentforge"
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("config.toml").write_text(f"[budget]\n{limits}\n")
    talk.environment = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def write_message(talk: Conversation, key: str, tokens: int) -> None:
    """Write a message of a model that costs two dollars for a million tokens."""
    usage = {"input_tokens": tokens}
    message = {"id": key, "model": "claude-sonnet-5-5", "usage": usage}
    talk.write({"type": "assistant", "message": message})


@pytest.mark.parametrize("limit", ["project_tokens = 100_000", "person_usd = 0.2"])
def test_a_tool_at_a_limit_of_the_person_records_at_once(
    project: Project, tmp_path: Path, limit: str
) -> None:
    session_id = project.begin(budget=10_000_000)
    talk = Conversation(project)
    limited(talk, tmp_path, limit)
    begun(talk, session_id)
    write_message(talk, "m1", 7_400)
    assert talk.use_tool() == ({}, {})
    assert used(project, session_id) == FIRST
    write_message(talk, "m2", 92_600)
    before, _ = talk.use_tool()
    assert before["continue"] is False
    assert used(project, session_id) == FIRST + 100_000


def test_what_other_sessions_spent_of_a_limit_counts_at_once(
    project: Project, tmp_path: Path
) -> None:
    session_id = project.begin(budget=10_000_000)
    talk = Conversation(project)
    limited(talk, tmp_path, "person_tokens = 100_000")
    begun(talk, session_id)
    with opened({**persons_folders(), **talk.environment}) as ledger:
        ledger.charge(Payer("other", "/elsewhere", "2026-01-01"), Amount(), Amount(99_000, 0))
    talk.spend(1_000)
    before, _ = talk.use_tool()
    assert before["continue"] is False


def hook(talk: Conversation, event: str, **fields: Any) -> dict[str, Any] | None:
    return handle(talk.program, talk.payload(event, **fields), persons_folders(), stores=stores)


def test_the_systems_clock_is_used_without_another(project: Project) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = begun(Conversation(project), session_id)
    talk.spend(1_000)
    assert hook(talk, "PreToolUse", tool_name="Bash", tool_input={}) is None
    assert used(project, session_id) in {FIRST, FIRST + 1_000}  # a slow machine records it at once
    hook(talk, "Stop", last_assistant_message="Done.")
    assert used(project, session_id) == FIRST + 1_000
