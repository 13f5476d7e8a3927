"""A lock whose holder is stopped delays a call for a short time; the next one records its part."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.hooks.binding import BindingFile
from agentforge_sessions.agents.hooks.project_place import find_project
from agentforge_sessions.base.files import DirectoryLock, OsFileSystem
from tests.support.agent_conversations import (
    Conversation,
    OpencodeConversation,
    Project,
    Repository,
)
from tests.support.person import persons_folders

PATIENCE_S = 0.02


def held(directory: Path) -> AbstractContextManager[DirectoryLock]:
    """Hold the lock of a directory, as a process does that was stopped meanwhile."""
    return DirectoryLock(OsFileSystem(), directory)


def conversation_of(project: Project, session_id: str) -> Path:
    del session_id
    return project.conversations / "claude-code" / "conversation-1"


def session_of(project: Project, session_id: str) -> Path:
    return project.store.session_path(session_id).parent


LOCKS = pytest.mark.parametrize("which", [conversation_of, session_of])
Which = Callable[[Project, str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def talk(project: Project) -> Conversation:
    talk = Conversation(project)
    talk.patience_s = PATIENCE_S
    return talk


def texts(project: Project, session_id: str) -> list[tuple[str, str]]:
    """Return what was said, in its order."""
    return [
        (entry.action, entry.data["text"])
        for entry in project.session(session_id).history
        if entry.action in {"agent_prompted", "agent_turn_ended"}
    ]


@LOCKS
def test_what_a_prompt_and_a_turns_end_say_is_recorded_by_the_next_event(
    project: Project, talk: Conversation, which: Which
) -> None:
    session_id = project.begin()
    talk.start()
    with held(which(project, session_id)):
        assert talk.prompt("Count the words") == {}
        assert talk.hook("Stop", last_assistant_message="They are counted.") == {}
        assert texts(project, session_id) == []
    talk.use_tool()
    said = [("agent_prompted", "Count the words"), ("agent_turn_ended", "They are counted.")]
    assert texts(project, session_id) == said
    talk.use_tool()
    talk.prompt("And the lines")
    assert texts(project, session_id) == [*said, ("agent_prompted", "And the lines")]


def test_a_secret_is_masked_before_a_prompt_is_put_aside(
    project: Project, talk: Conversation
) -> None:
    session_id = project.begin()
    talk.start()
    secret = f"sk-ant-{'x1Y2' * 8}"
    with held(conversation_of(project, session_id)):
        talk.prompt(f"my key is {secret}")
        aside = [one.read_text() for one in project.conversations.rglob("unrecorded/*")]
    talk.use_tool()
    ((_, said),) = texts(project, session_id)
    assert len(aside) == 1
    assert secret not in aside[0]
    assert said == "my key is [masked Anthropic key]"


@LOCKS
def test_tokens_and_edits_are_recorded_by_the_next_event(
    project: Project, talk: Conversation, which: Which
) -> None:
    session_id = project.begin()
    talk.start()
    talk.spend(500)
    made = project.folder / "made.py"
    made.write_text("made = True\n")
    with held(which(project, session_id)):
        talk.hook(
            "PostToolUse", tool_name="Write", tool_input={"file_path": str(made)}, tool_response={}
        )
    talk.prompt("Go on")
    session = project.session(session_id)
    assert session.token_budget.tokens_used == 500
    assert [one.path for one in session.artifacts] == ["made.py"]


def test_usage_that_only_the_event_has_is_charged_once(project: Project) -> None:
    session_id = project.begin()
    talk = OpencodeConversation(project)
    talk.patience_s = PATIENCE_S
    talk.start()
    with held(session_of(project, session_id)):
        talk.used(("msg_1", 300))
        talk.used(("msg_1", 400), ("msg_2", 100))
    talk.used(("msg_2", 100))
    assert project.session(session_id).token_budget.tokens_used == 500


def test_the_prompt_that_begins_a_session_begins_it_with_the_next_event(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    place = find_project(repository.folder)
    assert place is not None
    state = place.state(persons_folders())
    state.mkdir(parents=True)
    talk = Conversation(repository)
    talk.patience_s = PATIENCE_S
    talk.start()
    with held(state):
        talk.prompt("Count the words")
        assert repository.goals() == []
    talk.use_tool()
    assert repository.goals() == ["Count the words"]
    (session_id,) = repository.store.list_sessions()
    assert texts(repository, session_id) == [("agent_prompted", "Count the words")]


@LOCKS
def test_a_spent_budget_refuses_the_prompt_without_a_lock(
    project: Project, talk: Conversation, which: Which
) -> None:
    session_id = project.begin(budget=100)
    talk.start()
    talk.spend(200)
    stopped, _ = talk.use_tool()
    assert stopped["continue"] is False
    with held(which(project, session_id)):
        assert talk.prompt("Go on")["decision"] == "block"


def test_what_is_still_held_stays_for_a_later_event(project: Project, talk: Conversation) -> None:
    session_id = project.begin()
    talk.start()
    with held(session_of(project, session_id)):
        talk.prompt("one")
        for _ in range(3):
            talk.hook("PreToolUse", tool_name="Bash", tool_input={})
        talk.prompt("two")
    talk.prompt("three")
    assert [text for _, text in texts(project, session_id)] == ["one", "two", "three"]


def test_only_so_many_calls_of_a_conversation_are_put_aside(project: Project) -> None:
    file = BindingFile(project.conversations, "claude-code", "conversation-1")
    payload: dict[str, Any] = {"prompt": "x"}
    assert all(file.put_aside(payload) for _ in range(500))
    assert not file.put_aside(payload)
    assert not BindingFile(project.conversations, "claude-code", "c-2").put_aside(
        {"prompt": "x" * 2_000_000}
    )
