"""Where the work stands, as the session's history and transcripts show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.transcripts.state import work_state
from agentforge_sessions.harness.domain.history_events import AgentGateJudged
from agentforge_sessions.harness.views.work_state import (
    DecisionMade,
    FailedCommand,
    PlanItem,
    WorkState,
)
from tests.support.agent_conversations import CodexConversation, Conversation, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def session_id(project: Project) -> str:
    return project.begin()


@pytest.fixture
def talk(project: Project, session_id: str) -> Conversation:
    talk = Conversation(project)
    talk.start()
    return talk


class _Numbers:
    last = 0


def line(kind: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    _Numbers.last += 1
    return {
        "type": kind,
        "uuid": f"u{_Numbers.last}",
        "message": {"content": list(content)},
        **more,
    }


def said(text: str) -> dict[str, Any]:
    return line("assistant", {"type": "text", "text": text})


def ran(command: str, result: str = "ok", *, name: str = "Bash") -> list[dict[str, Any]]:
    """A call of a tool and its result; a command fails that says an exit code."""
    _Numbers.last += 1
    key = f"t{_Numbers.last}"
    given = {"command": command}
    done = {"type": "tool_result", "tool_use_id": key, "content": result}
    done["is_error"] = result.startswith("Exit code")
    return [
        line("assistant", {"type": "tool_use", "id": key, "name": name, "input": given}),
        line("user", done),
    ]


def planned(**result: Any) -> dict[str, Any]:
    done = {"type": "tool_result", "tool_use_id": f"p{_Numbers.last}", "content": "ok"}
    return line("user", done, toolUseResult=result)


def state(project: Project, session_id: str, **more: Any) -> WorkState:
    return work_state(project.store, session_id, **more)


def end_turn(talk: Conversation, text: str = "done") -> None:
    talk.hook("Stop", last_assistant_message=text)


def test_a_session_without_conversations_has_no_state(project: Project, session_id: str) -> None:
    assert state(project, session_id) == WorkState()
    assert work_state(project.store, "session_20260101_000000_000000") == WorkState()


def test_a_prompt_is_unfinished_until_its_turn_ends(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt("Count the words")
    found = state(project, session_id)
    assert (found.prompt, found.program) == ("Count the words", "claude-code")
    end_turn(talk)
    assert state(project, session_id).prompt == ""


def test_a_prompt_is_unfinished_while_its_last_turn_failed_the_gate(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt("Count the words")
    for passed in (False, True):
        end_turn(talk)
        judged = AgentGateJudged(program=talk.program, agent_session=talk.name, passed=passed)
        project.open(session_id).record(judged)
        assert state(project, session_id).prompt == ("" if passed else "Count the words")


def test_what_the_person_said_for_all_of_the_work_stays_an_instruction(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt("Add a parser. Always write a test first.\nThen run it")
    talk.prompt("never touch the schema; go on")
    talk.prompt("Always write a test first.")
    assert state(project, session_id).instructions == (
        "never touch the schema;",
        "Always write a test first.",
    )


def test_the_plan_is_the_last_one(project: Project, session_id: str, talk: Conversation) -> None:
    talk.prompt()
    old = [{"content": "old", "status": "pending"}]
    new = [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "in_progress"},
        {"content": "not that", "status": "cancelled"},
    ]
    talk.write(planned(newTodos=old), planned(newTodos=new))
    end_turn(talk)
    assert state(project, session_id).plan == (
        PlanItem("one", "completed"),
        PlanItem("two", "in_progress"),
    )


def test_a_plan_of_tasks_is_what_their_changes_made_of_it(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt()
    talk.write(
        *[planned(task={"id": str(n), "subject": f"step {n}"}) for n in (1, 2, 3)],
        planned(taskId="1", statusChange={"from": "pending", "to": "completed"}),
        planned(taskId="2", statusChange={"from": "pending", "to": "deleted"}),
    )
    end_turn(talk)
    assert state(project, session_id).plan == (
        PlanItem("step 1", "completed"),
        PlanItem("step 3", "pending"),
    )


def test_the_last_command_that_failed_is_named_until_it_succeeds(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt()
    lines = "\n".join(f"line {n}" for n in range(30))
    talk.write(*ran("make lint", "Exit code 1\nE501"), *ran("make test", f"Exit code 2\n{lines}"))
    talk.write(*ran("ls"))
    end_turn(talk)
    last = "\n".join(f"line {n}" for n in range(18, 30))
    assert state(project, session_id).failed == FailedCommand("make test", 2, last)
    talk.write(*ran("make test"))
    end_turn(talk)
    assert state(project, session_id).failed == FailedCommand("make lint", 1, "E501")
    talk.write(*ran("make lint"))
    end_turn(talk)
    assert state(project, session_id).failed is None


def test_decisions_say_who_made_them_the_newest_first(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt()
    talk.write(
        said("I looked at both. I decided for bytes. Now the rest."),
        *ran("Which database?", "Use SQLite", name="AskUserQuestion"),
    )
    end_turn(talk)
    assert state(project, session_id).decisions == (
        DecisionMade("Use SQLite", "person"),
        DecisionMade("I decided for bytes.", "claude-code"),
    )


def test_the_next_programs_state_has_what_the_one_before_left(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt("Never use pip.")
    talk.write(planned(newTodos=[{"content": "one", "status": "pending"}]))
    codex = CodexConversation(project, "codex-1")
    codex.start()
    codex.prompt("Go on")
    found = state(project, session_id)
    assert found.plan == (PlanItem("one", "pending"),)
    assert found.instructions == ("Never use pip.",)
    assert (found.prompt, found.program) == ("Go on", "")


def test_what_may_not_be_shown_is_not_looked_at(
    project: Project, session_id: str, talk: Conversation
) -> None:
    talk.prompt("Never use pip.")
    talk.write(planned(newTodos=[{"content": "secret plan", "status": "pending"}]))
    codex = CodexConversation(project, "codex-1")
    codex.start()
    codex.prompt("Go on")
    found = state(project, session_id, may_show=lambda program: program == "codex")
    assert found == WorkState(prompt="Go on", program="codex")
