"""What opencode's plugin and Gemini CLI's hooks say, and what they are answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.fleet import stores
from agentforge_sessions.harness import SessionState
from agentforge_sessions.questions.formatting import (
    format_header,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_submission,
)
from tests.support.agent_conversations import (
    Conversation,
    GeminiConversation,
    OpencodeConversation,
    Project,
)
from tests.support.trusting import trusted

GATE = "[agents]\ngate = true\ngate_rounds = 2\n[gate]\ncommand = \"sh -c 'echo RED; exit 3'\"\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def opencode(project: Project) -> OpencodeConversation:
    return OpencodeConversation(project, "ses_1")


@pytest.fixture
def gemini(project: Project) -> GeminiConversation:
    return GeminiConversation(project)


# ---------------------------------------------------------------------------------------- opencode


def test_opencode_is_briefed_and_charged_once_by_the_ids_of_messages(
    project: Project, opencode: OpencodeConversation
) -> None:
    session_id = project.begin(goal="Count the words")
    assert "Goal: “Count the words" in opencode.start()
    opencode.prompt("Count")
    assert opencode.used(("msg_1", 300)) == {}
    opencode.used(("msg_1", 300), ("msg_2", 50))
    used = {"id": "msg_2", "tokens": {"total": 70}}
    opencode.hook("session.started", source="resume", usage=[used])
    assert project.session(session_id).token_budget.tokens_used == 370
    assert "prompted" in project.actions(session_id)[2]


def test_opencode_is_warned_stopped_refused_and_goes_on_once_extended(
    project: Project, opencode: OpencodeConversation
) -> None:
    session_id = project.begin(budget=1_000)
    opencode.start()
    assert "85 % of this session's" in opencode.used(("msg_1", 850))["context"]
    assert "is spent" in opencode.used(("msg_2", 200))["stop"]
    assert project.session(session_id).state is SessionState.PAUSED
    assert f"agentforge session budget {session_id} --extend" in opencode.prompt("go on")["refuse"]
    project.open(session_id).extend_budget(1_000)
    assert opencode.prompt("go on") == {}
    assert project.session(session_id).state is SessionState.ACTIVE


def test_what_opencode_edits_compacts_and_says_is_recorded(
    project: Project, opencode: OpencodeConversation
) -> None:
    session_id = project.begin()
    opencode.start()
    opencode.prompt()
    made = project.folder / "a.py"
    made.write_text("a")
    opencode.hook("tool.execute.after", files=[{"path": str(made), "created": True}, {"path": 3}])
    opencode.hook("session.compacting")
    opencode.hook("session.compacted", text="The parser is done.", trigger="auto")
    assert "The parser is done." in opencode.start("compact")
    opencode.hook("session.idle", text="All done.")
    artifacts = project.session(session_id).artifacts
    assert [(one.path, one.artifact_type) for one in artifacts] == [("a.py", "created")]
    assert project.actions(session_id)[-3:] == [
        *("checkpoint", "agent_compacted", "agent_turn_ended")
    ]


def test_a_failed_gate_sends_opencode_on(project: Project, opencode: OpencodeConversation) -> None:
    trusted(project.data_folder / "config.toml", GATE)
    project.begin()
    opencode.start()
    opencode.prompt()
    answers = []
    for _ in range(3):
        answers.append(opencode.hook("session.idle", text="done"))
        opencode.hook("chat.message", text="sent on", by_person=False)
    assert ["RED" in one.get("goOn", "") for one in answers] == [True, True, False]


# ------------------------------------------------------------------------------------------ Gemini


def test_gemini_is_briefed_and_charged_from_its_chat_with_subagents(
    project: Project, gemini: GeminiConversation
) -> None:
    session_id = project.begin(goal="Count the words")
    assert "Goal: “Count the words" in gemini.start()
    gemini.prompt("<hook_context>a briefing</hook_context>\n\nCount")
    gemini.spend(400)
    assert gemini.ask_model("Count") == {}
    gemini.spend(300, name="helper")
    gemini.spend(100)
    gemini.hook("AfterAgent", prompt="Count", prompt_response="Counted.")
    session = project.session(session_id)
    assert session.token_budget.tokens_used == 800
    said = [
        e.details for e in session.history if e.action in {"agent_prompted", "agent_turn_ended"}
    ]
    assert said == ["Count", "Counted."]
    before = session.revision
    assert gemini.ask_model("Count") == {}
    assert project.session(session_id).revision == before, "nothing new is written"


def test_what_gemini_spent_before_a_session_was_there_is_not_charged_to_it(
    project: Project, gemini: GeminiConversation
) -> None:
    """When it goes on, the program names another file first than it writes to then."""
    gemini.spend(4_000)
    old = gemini.transcript
    session_id = project.begin()
    gemini.transcript = old.with_name(old.name.replace("09-30", "11-00"))
    gemini.start("resume")
    gemini.transcript = old
    gemini.spend(100)
    gemini.ask_model("x")
    assert project.session(session_id).token_budget.tokens_used == 100


def test_gemini_is_stopped_before_the_next_request_and_refused_until_extended(
    project: Project, gemini: GeminiConversation
) -> None:
    session_id = project.begin(budget=1_000)
    gemini.start()
    gemini.spend(850)
    after = gemini.hook("AfterTool", tool_name="glob", tool_input={}, tool_response={})
    assert "85 % of this" in after["hookSpecificOutput"]["additionalContext"]
    gemini.spend(300)
    for _ in range(2):
        stopped = gemini.ask_model("x")
        assert stopped["decision"] == "deny"
        assert f"agentforge session budget {session_id} --extend" in stopped["reason"]
    assert gemini.prompt("go on")["decision"] == "deny"
    project.open(session_id).extend_budget(1_000)
    assert gemini.prompt("go on") == {}
    assert gemini.ask_model("x") == {}


def test_a_request_of_gemini_with_a_summary_and_no_briefing_is_given_one(
    project: Project, gemini: GeminiConversation
) -> None:
    session_id = project.begin(goal="Count the words")
    gemini.start()
    gemini.prompt()
    summary = "context <state_snapshot>\nParser done.\n</state_snapshot>"
    first = gemini.ask_model(summary, "Got it.", "go on", "<b>")
    messages = first["hookSpecificOutput"]["llm_request"]["messages"]
    assert [one["role"] for one in messages] == ["user"], "what follows is left as it is"
    assert messages[0]["content"].startswith(summary)
    assert "Parser done." in messages[0]["content"].partition("Goal: “Count the words")[2]
    gemini.spend(100)
    assert gemini.ask_model(summary, "Got it.", "go on", "b") == first, "the same each time"
    again = project.actions(session_id)
    assert again.count("agent_compacted") == again.count("checkpoint") == 1
    briefed = gemini.ask_model(summary, "Got it.", gemini.start("resume"))
    assert briefed == {}
    assert gemini.ask_model("go on") == {}
    other = gemini.ask_model(summary.replace("Parser", "Printer"), "Got it.")
    assert "Printer done." in json.dumps(other)
    assert project.actions(session_id).count("agent_compacted") == 2


def test_files_that_gemini_writes_are_artifacts(
    project: Project, gemini: GeminiConversation
) -> None:
    session_id = project.begin()
    gemini.start()
    for name, tool, shown in (
        ("new.py", "write_file", {"isNewFile": True, "filePath": str(project.folder / "new.py")}),
        ("old.py", "replace", {"isNewFile": False}),
        ("not.py", "read_file", {}),
    ):
        (project.folder / name).write_text(name)
        fields = {"tool_name": tool, "tool_input": {"file_path": name}}
        gemini.hook("AfterTool", **fields, tool_response={"returnDisplay": shown})
    failed = {"tool_name": "write_file", "tool_input": {"file_path": "x"}}
    gemini.hook("AfterTool", **failed, tool_response={"error": {"message": "no"}})
    assert [(one.path, one.artifact_type) for one in project.session(session_id).artifacts] == [
        ("new.py", "created"),
        ("old.py", "modified"),
    ]


def test_a_failed_gate_sends_gemini_on_though_it_shows_that_as_a_prompt(
    project: Project, gemini: GeminiConversation
) -> None:
    trusted(project.data_folder / "config.toml", GATE)
    session_id = project.begin()
    gemini.start()
    gemini.prompt()
    answers = []
    for _ in range(3):
        answers.append(gemini.hook("AfterAgent", prompt="p", prompt_response="done"))
        gemini.prompt(answers[-1].get("reason", "x"))
    assert [one.get("decision") for one in answers] == ["deny", "deny", None]
    assert project.actions(session_id).count("agent_gate") == 2


# ------------------------------------------------------------------------------- what may go wrong


@pytest.mark.parametrize("kind", [OpencodeConversation, GeminiConversation])
def test_inside_a_runner_of_ours_the_hook_is_silent(
    project: Project, kind: type[Conversation]
) -> None:
    session_id = project.begin()
    talk = kind(project, "0a1b2c3d-1")
    talk.environment = {"AGENTFORGE_SESSION": session_id, "AGENTFORGE_CALL": "1"}
    assert talk.start() == ""
    assert talk.prompt() == {}


@pytest.mark.parametrize(
    ("program", "payload"),
    [
        (
            "opencode",
            {"hook_event_name": "message.updated", "usage": [3, {"id": "a"}, {"tokens": 1}]},
        ),
        ("opencode", {"hook_event_name": "tool.execute.after", "files": {"path": "x"}}),
        ("opencode", {"hook_event_name": "nosuch"}),
        ("gemini", {"hook_event_name": "BeforeModel", "llm_request": {"messages": [3, {}, None]}}),
        ("gemini", {"hook_event_name": "BeforeModel", "llm_request": "x"}),
        ("gemini", {"hook_event_name": "AfterTool", "tool_name": "replace", "tool_input": 3}),
        ("gemini", {"hook_event_name": "PreCompress"}),
    ],
)
def test_events_of_another_shape_have_no_answer(
    project: Project, program: str, payload: dict[str, Any]
) -> None:
    project.begin()
    named = {**payload, "session_id": "conversation-1", "cwd": str(project.folder)}
    assert handle(program, named, {}, stores=stores, clock=project.clock) is None


# ----------------------------------------------------------------------------------- the questions

QUESTION = "3d29115a-671d-419e-921d-853ff24da2de"
ASKED = {"question": "Which database?", "options": []}
WAITS = "## Waiting for a person's answer\n- question {}, asked by the agent: “Which database?"


def opencode_asks(talk: OpencodeConversation, status: str, text: str) -> None:
    answer = {"session_id": QUESTION, "status": status, "text": text}
    talk.hook(
        "tool.execute.after",
        tool_name="agentforge_ask",
        tool_input=ASKED,
        tool_response={"content": [], "structuredContent": answer},
    )


def gemini_asks(talk: GeminiConversation, text: str) -> None:
    """Call the hook after a tool: the program has its text alone, once for the model."""
    told = {"llmContent": [{"text": f"<untrusted_context>\n{text}\n</untrusted_context>"}]}
    talk.hook(
        "AfterTool",
        tool_name="mcp_agentforge_ask",
        tool_input=ASKED,
        tool_response={**told, "returnDisplay": text},
    )


def test_a_question_that_waits_is_in_the_briefing_of_opencode_until_it_is_answered(
    project: Project, opencode: OpencodeConversation
) -> None:
    session_id = project.begin()
    opencode.start()
    opencode_asks(opencode, "pending", "")
    assert WAITS.format(QUESTION) in opencode.start("compact")
    opencode_asks(opencode, "completed", "Database: SQLite")
    briefing = opencode.start("compact")
    assert "Waiting for" not in briefing
    assert "Database: SQLite" in briefing
    actions = project.actions(session_id)
    assert (actions.count("question_asked"), actions.count("question_answered")) == (1, 1)


def test_a_question_that_waits_is_in_the_briefing_of_gemini_until_it_is_answered(
    project: Project, gemini: GeminiConversation
) -> None:
    """By the beginning of its id, by which it is fetched too."""
    session_id = project.begin()
    gemini.start()
    gemini_asks(gemini, format_submission(QUESTION, 1))
    gemini_asks(gemini, format_pending(QUESTION))
    assert WAITS.format(QUESTION[:8]) in gemini.start("resume")
    answered = "\n\nHere are the user's answers:\n\n1. Which database?\n→ SQLite"
    gemini_asks(gemini, f"{format_header(QUESTION, 1)}{answered}")
    assert "Waiting for" not in gemini.start("resume")
    actions = project.actions(session_id)
    assert (actions.count("question_asked"), actions.count("question_answered")) == (1, 1)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (format_rejected(QUESTION, "no"), "question_rejected"),
        (format_rejection("no", session_id=QUESTION, question_count=1), "question_rejected"),
        (format_inactive(QUESTION, "timed_out"), "question_timed_out"),
    ],
)
def test_a_question_of_gemini_that_ends_without_an_answer_waits_no_more(
    project: Project, gemini: GeminiConversation, text: str, ended: str
) -> None:
    session_id = project.begin()
    gemini.start()
    gemini_asks(gemini, format_submission(QUESTION, 1))
    gemini_asks(gemini, text)
    assert project.actions(session_id)[-1] == ended


def test_a_question_that_gemini_asked_is_the_same_where_another_program_fetches_it(
    project: Project, gemini: GeminiConversation, opencode: OpencodeConversation
) -> None:
    session_id = project.begin()
    gemini.start()
    gemini_asks(gemini, format_submission(QUESTION, 1))
    opencode.start()
    opencode_asks(opencode, "completed", "Database: SQLite")
    assert "Waiting for" not in gemini.start("resume")
    actions = project.actions(session_id)
    assert (actions.count("question_asked"), actions.count("question_answered")) == (1, 1)


@pytest.mark.parametrize("response", [None, 3, "x", {"returnDisplay": 3}, {"returnDisplay": "no"}])
def test_what_says_nothing_of_a_question_is_not_recorded(
    project: Project, gemini: GeminiConversation, response: object
) -> None:
    session_id = project.begin()
    gemini.start()
    tool = "mcp_agentforge_ask"
    gemini.hook("AfterTool", tool_name=tool, tool_input=ASKED, tool_response=response)
    assert project.actions(session_id) == ["session_created", "agent_started"]
