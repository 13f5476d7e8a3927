"""What a call of the hook records in a session, and what the agent is answered."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.fleet import stores
from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.harness.domain.history_events import AgentEdited, AgentUsage
from tests.support.agent_conversations import CodexConversation, Conversation, Project
from tests.support.trusting import trusted


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def talk(project: Project) -> Conversation:
    return Conversation(project)


@pytest.fixture
def begun(project: Project, talk: Conversation) -> str:
    """A session, in which the conversation has begun; its id."""
    session_id = project.begin()
    talk.start()
    return session_id


def spent(project: Project, session_id: str) -> int:
    return project.session(session_id).token_budget.tokens_used


def configure(project: Project, text: str) -> None:
    trusted(project.data_folder / "config.toml", text)


# ----------------------------------------------------------------------------------- the briefing


def test_a_new_context_is_given_the_briefing_of_the_only_open_session(
    project: Project, talk: Conversation
) -> None:
    session_id = project.begin(goal="Count the words")
    briefing = talk.start()
    assert briefing.splitlines()[0].startswith("AgentForge session briefing, revision 2 of")
    assert "supersedes every earlier briefing" in briefing.splitlines()[0]
    assert "Goal: “Count the words" in briefing
    assert "## Next step" in briefing
    assert project.actions(session_id) == ["session_created", "agent_started"]


def test_a_briefing_shows_what_the_configuration_says(project: Project, talk: Conversation) -> None:
    session_id = project.begin()
    project.open(session_id).describe(title="A title", metadata={"owner": "ops"})
    assert "Title: “A title" in talk.start()
    configure(project, '[briefing]\nshows = ["metadata"]\n')
    briefing = talk.start("resume")
    assert 'Metadata: “{"owner": "ops"}”' in briefing
    assert "A title" not in briefing


def test_a_configuration_of_briefings_that_cannot_be_used_withholds_none(
    project: Project, talk: Conversation
) -> None:
    project.begin(goal="Count the words")
    configure(project, '[briefing]\nshows = ["secrets"]\n')
    assert "Goal: “Count the words" in talk.start()


def test_what_was_said_and_the_summary_of_a_compaction_are_in_the_next_briefing(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.prompt("Write the parser")
    talk.hook("Stop", last_assistant_message="The parser is written; decided for LL(1).")
    talk.hook("PreCompact", trigger="auto")
    talk.hook("PostCompact", trigger="auto", compact_summary="Parser done. Next: the printer.")
    briefing = talk.start("compact")
    assert "Parser done. Next: the printer." in briefing
    assert "Write the parser" in briefing
    assert project.actions(begun)[-3:] == ["agent_turn_ended", "checkpoint", "agent_compacted"]


def test_a_briefing_keeps_to_its_limits(project: Project, talk: Conversation) -> None:
    project.begin(goal="g" * 4000)
    talk.start()
    for number in range(30):
        talk.prompt(f"prompt {number} " + "p" * 3000)
        talk.hook("Stop", last_assistant_message="said " + "s" * 6000)
        talk.hook("PostCompact", trigger="auto", compact_summary="summary " + "c" * 9000)
    briefing = talk.start("resume")
    assert len(briefing) <= 9_000
    assert len(briefing.encode()) <= 3 * 2_000
    assert briefing.splitlines()[-2] == "## Next step"


def test_a_checkpoint_before_a_compaction_is_taken_once(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.prompt()
    for _ in range(3):
        talk.hook("PreCompact", trigger="auto")
    assert project.actions(begun).count("checkpoint") == 1


# ------------------------------------------------------------------------------------ the binding


def test_of_several_open_sessions_none_is_recorded_in_and_the_person_is_asked_to_choose(
    project: Project, talk: Conversation
) -> None:
    ids = [project.begin() for _ in range(2)]
    talk.spend(500)
    assert talk.start() == ""
    said = talk.prompt()["systemMessage"]
    assert all(one in said for one in (*ids, "2 sessions of this branch are open", "switch ID"))
    assert talk.use_tool() == ({}, {})
    assert all(project.actions(one) == ["session_created"] for one in ids)


def test_the_variable_names_the_session_among_several(project: Project, talk: Conversation) -> None:
    first, second = project.begin(goal="the first"), project.begin(goal="the second")
    talk.environment = {"AGENTFORGE_SESSION": second}
    assert "Goal: “the second" in talk.start()
    assert project.actions(first) == ["session_created"]


def test_a_conversation_stays_with_its_session_when_others_begin(
    project: Project, talk: Conversation
) -> None:
    first = project.begin(goal="the first")
    talk.start()
    project.begin(goal="the second")
    talk.spend(100)
    talk.use_tool()
    assert "Goal: “the first" in talk.start("resume")
    assert spent(project, first) == 100


def test_what_was_spent_before_a_session_was_there_is_not_charged_to_it(
    project: Project, talk: Conversation
) -> None:
    talk.spend(4_000)
    talk.start()
    session_id = project.begin()
    talk.start("resume")
    talk.spend(100)
    talk.use_tool()
    assert spent(project, session_id) == 100


def test_no_session_is_created_where_the_configuration_says_so(
    project: Project, talk: Conversation
) -> None:
    configure(project, "[agents]\ncreate = false\n")
    assert (talk.start(), talk.prompt()) == ("", {})
    assert project.store.list_sessions() == []


def test_a_prompt_creates_a_session_with_the_configured_budget(
    project: Project, talk: Conversation
) -> None:
    configure(project, "[agents]\ntoken_budget = 77\n")
    assert (talk.start(), *talk.use_tool()) == ("", {}, {})
    assert project.store.list_sessions() == []
    talk.prompt("Make it\nwork")
    (session_id,) = project.store.list_sessions()
    session = project.session(session_id)
    assert (session.goal, session.token_budget.total_budget) == ("Make it\nwork", 77)


def test_the_programs_own_notice_is_no_prompt(project: Project, talk: Conversation) -> None:
    session_id = project.begin(goal=None)
    talk.start()
    talk.prompt("<task-notification>\ndone</task-notification>")
    assert project.actions(session_id) == ["session_created", "agent_started"]


def test_inside_a_runner_of_ours_the_hook_is_silent(project: Project, talk: Conversation) -> None:
    session_id = project.begin()
    talk.environment = {"AGENTFORGE_SESSION": session_id, "AGENTFORGE_CALL": "1"}
    talk.spend(100)
    assert talk.start() == ""
    assert spent(project, session_id) == 0


def test_an_ended_session_is_left_alone_and_the_next_prompt_creates_another(
    project: Project, talk: Conversation, begun: str
) -> None:
    project.open(begun).complete()
    talk.spend(100)
    assert talk.use_tool() == ({}, {})
    assert "session " in talk.prompt("another task")["systemMessage"]
    assert project.actions(begun)[-1] == "session_completed"
    assert [project.session(one).goal for one in project.store.list_sessions()] == [
        "Build it",
        "another task",
    ]


def test_what_the_hook_keeps_is_kept_out_of_the_project(
    project: Project, talk: Conversation
) -> None:
    project.begin()
    talk.start()
    assert [one.name for one in project.data_folder.iterdir()] == ["sessions"]
    assert list(project.conversations.glob("claude-code/*/binding.json"))


# -------------------------------------------------------------------------------------- the usage


def test_each_message_is_charged_once_with_subagents_and_what_the_program_adds(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(1_000, blocks=3)
    talk.use_tool()
    talk.use_tool()
    talk.spend(700, name="a")
    talk.hook("SubagentStop")
    talk.spend(300)
    talk.hook("Stop", last_assistant_message="done")
    assert spent(project, begun) == 2_000
    model = {"inputTokens": 2_100, "outputTokens": 100, "cacheReadInputTokens": 0}
    talk.write({"type": "cost-state", "modelUsage": {"model-a": model}})
    talk.start("resume")
    assert spent(project, begun) == 2_200
    charged = [e.event for e in project.session(begun).history if e.action == "agent_usage"]
    assert [(one.tokens, one.total) for one in charged if isinstance(one, AgentUsage)] == [
        (1_000, 1_000),
        (700, 1_700),
        (300, 2_000),
        (200, 2_200),
    ]


def test_a_line_that_is_not_whole_yet_is_charged_when_it_is(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(400, blocks=1)
    whole = talk.transcript.read_bytes()
    talk.transcript.write_bytes(whole[: len(whole) // 2])
    talk.use_tool()
    assert spent(project, begun) == 0
    talk.transcript.write_bytes(whole)
    talk.use_tool()
    assert spent(project, begun) == 400


def test_a_lost_binding_charges_nothing_twice_and_loses_nothing(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(400)
    talk.use_tool()
    (binding,) = project.conversations.glob("claude-code/*/binding.json")
    binding.write_bytes(b"\xff\x00{[")
    talk.spend(100)
    talk.prompt()
    assert spent(project, begun) == 500


def test_a_call_with_nothing_new_writes_nothing(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(400)
    talk.use_tool()
    (binding,) = project.conversations.glob("claude-code/*/binding.json")
    before = (binding.stat().st_ino, project.session(begun).revision)
    talk.use_tool()
    assert (binding.stat().st_ino, project.session(begun).revision) == before


def test_a_new_subagent_is_charged_while_it_is_at_work(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(100)
    talk.use_tool()
    talk.spend(300, name="a")
    talk.use_tool()
    assert spent(project, begun) == 400


def test_what_a_killed_conversation_spent_is_charged_when_the_next_begins(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.spend(400)
    talk.use_tool()
    talk.spend(250)  # the program is killed before it calls a hook
    other = CodexConversation(project, "conversation-2")
    briefing = other.start()
    assert "9,350 of 10,000 tokens left" in briefing
    other.spend(50)
    other.hook("Stop", last_assistant_message="done")
    assert spent(project, begun) == 700


def test_the_total_of_codex_counts_however_often_it_is_repeated(project: Project) -> None:
    session_id = project.begin()
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": "model-c"}})
    talk.spend(1_000)
    talk.use_tool()
    talk.write({"type": "compacted", "payload": {"message": "The summary:\nAll is done."}})
    talk.spend(300)
    talk.hook("PostCompact", trigger="auto")
    session = project.session(session_id)
    assert session.token_budget.tokens_used == 1_300
    assert [e.details for e in session.history if e.action == "agent_compacted"] == ["All is done."]
    usage = session.history[-2].event
    assert isinstance(usage, AgentUsage)
    assert usage.models == {"model-c": 300}


def test_each_thread_of_codex_is_charged_by_its_own_total(project: Project) -> None:
    session_id = project.begin(budget=100_000)
    talk = CodexConversation(project)
    talk.start()
    talk.spend(1_000)
    talk.subagent = "a"
    talk.prompt("do your part")
    talk.spend(300, name="a")
    talk.use_tool()
    talk.subagent = None
    talk.use_tool()
    talk.spend(50)
    talk.spend(2_000, name="a")
    talk.hook("SubagentStop")
    talk.hook("Stop", last_assistant_message="done")
    session = project.session(session_id)
    assert session.token_budget.tokens_used == 3_350
    assert "agent_prompted" not in [entry.action for entry in session.history]


def test_a_subagent_of_codex_whose_hooks_were_killed_is_charged_at_the_end_of_the_turn(
    project: Project,
) -> None:
    session_id = project.begin(budget=100_000)
    talk = CodexConversation(project)
    talk.start()
    talk.spend(1_000)
    talk.spend(700, name="a")
    other = CodexConversation(project, "conversation-other")
    other.spend(5_000)
    copied = {"thread_id": other.name, "thread_token_usage": {"total_tokens": 9_000}}
    talk.write({"type": "token_usage_record", "payload": copied})
    talk.use_tool()
    assert project.session(session_id).token_budget.tokens_used == 1_000
    talk.hook("Stop", last_assistant_message="done")
    assert project.session(session_id).token_budget.tokens_used == 1_700


def test_each_model_of_codex_has_its_own_count(project: Project) -> None:
    session_id = project.begin(budget=100_000)
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": "large"}})
    talk.write({"type": "turn_context", "payload": {"model": "small"}}, name="a")
    talk.spend(1_000)
    talk.spend(10, name="a")
    talk.hook("Stop", last_assistant_message="begun")
    talk.spend(2_000)
    talk.spend(20, name="a")
    talk.hook("Stop", last_assistant_message="done")
    found: dict[str, int] = {}
    for entry in project.session(session_id).history:
        if isinstance(event := entry.event, AgentUsage):
            for name, tokens in event.models.items():
                found[name] = found.get(name, 0) + tokens
    assert found == {"large": 3_000, "small": 30}


# ------------------------------------------------------------------------------------- the budget


def test_at_80_percent_the_agent_is_given_one_line(project: Project, talk: Conversation) -> None:
    project.begin(budget=1_000)
    talk.start()
    talk.spend(850)
    before, after = talk.use_tool()
    assert before == {}
    line = after["hookSpecificOutput"]["additionalContext"]
    assert line.startswith("AgentForge: 85 % of this session's token budget is spent, 150")
    assert talk.use_tool() == ({}, {})


def test_at_100_percent_the_agent_is_stopped_and_the_next_prompt_refused_until_extended(
    project: Project, talk: Conversation
) -> None:
    session_id = project.begin(budget=1_000)
    talk.start()
    talk.spend(1_200)
    before, after = talk.use_tool()
    assert (before["continue"], after["continue"]) == (False, False)
    assert before["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert f"agentforge session budget {session_id} --extend" in after["stopReason"]
    assert project.session(session_id).state is SessionState.PAUSED
    refused = talk.prompt("go on")
    assert refused["decision"] == "block"
    project.open(session_id).extend_budget(1_000)
    assert talk.prompt("go on") == {}
    assert project.session(session_id).state is SessionState.ACTIVE
    assert talk.use_tool() == ({}, {})


def test_a_session_that_a_person_paused_stays_paused(
    project: Project, talk: Conversation, begun: str
) -> None:
    project.open(begun).pause("a person looks at it")
    assert talk.prompt("go on") == {}
    assert project.session(begun).state is SessionState.PAUSED


# -------------------------------------------------------------------------------------- the files


def test_edited_files_are_artifacts_with_their_digest(
    project: Project, talk: Conversation, begun: str
) -> None:
    made, changed = project.folder / "src" / "a.py", project.folder / "b.py"
    made.parent.mkdir()
    made.write_text("a")
    changed.write_text("b")
    talk.use_tool("Write", file_path=str(made), response={"type": "create"})
    talk.use_tool("Edit", file_path=str(changed), response={"type": "update"})
    talk.use_tool("Write", file_path="/etc/hostname", response={"type": "update"})
    session = project.session(begun)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [
        ("src/a.py", "created"),
        ("b.py", "modified"),
    ]
    edits = [e.event for e in session.history if e.action == "agent_edited"]
    assert [one.sha256 for one in edits if isinstance(one, AgentEdited)] == [
        hashlib.sha256(text.encode()).hexdigest() for text in ("a", "b")
    ]


def test_files_in_a_patch_of_codex_are_artifacts(project: Project) -> None:
    session_id = project.begin()
    talk = CodexConversation(project)
    talk.start()
    (project.folder / "new.py").write_text("n")
    patch = "*** Begin Patch\n*** Add File: new.py\n+n\n*** Update File: ../out.py\n*** End Patch"
    talk.use_tool("apply_patch", command=patch)
    assert [one.path for one in project.session(session_id).artifacts] == ["new.py"]


def test_files_that_codex_changed_without_a_hook_are_read_from_its_rollout(
    project: Project,
) -> None:
    """A patch inside a command calls no hook after it, and stands in the rollout alone."""
    session_id = project.begin()
    talk = CodexConversation(project)
    talk.start()
    made, changed = project.folder / "new.py", project.folder / "old.py"
    for one in (made, changed):
        one.write_text("n")
    changes = {
        str(made): {"type": "add", "content": "n"},
        str(changed): {"type": "update", "unified_diff": ""},
        str(project.folder / "gone.py"): {"type": "delete"},
        "/etc/hostname": {"type": "update"},
    }
    item = {"type": "FileChange", "status": "completed", "changes": changes}
    failed = {**item, "status": "failed", "changes": {str(made.parent / "no.py"): {"type": "add"}}}
    for one in (item, failed, {**item, "changes": ["no"]}):
        talk.write({"type": "event_msg", "payload": {"type": "item_completed", "item": one}})
    patch = "*** Begin Patch\n*** Update File: old.py\n*** End Patch"
    talk.use_tool("apply_patch", command=patch)
    talk.hook("Stop", last_assistant_message="done")
    (binding,) = project.conversations.glob("codex/*/binding.json")
    binding.unlink()
    talk.hook("Stop", last_assistant_message="all read again")
    session = project.session(session_id)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [
        ("new.py", "created"),
        ("old.py", "modified"),
    ]


# ---------------------------------------------------------------------------------- the questions

QUESTION = "3d29115a-671d-419e-921d-853ff24da2de"


def ask(talk: Conversation, status: str, *, text: str = "") -> Any:
    answer = {"session_id": QUESTION, "status": status, "text": text}
    inside = {"content": [], "structuredContent": answer}
    return talk.use_tool(
        "mcp__agentforge__ask",
        question="Which database?",
        response=json.dumps(answer) if talk.program == "claude-code" else inside,
    )


@pytest.mark.parametrize("kind", [Conversation, CodexConversation])
def test_a_question_that_waits_is_in_the_briefing_until_it_is_answered(
    project: Project, kind: type[Conversation]
) -> None:
    session_id = project.begin()
    talk = kind(project)
    talk.start()
    ask(talk, "pending")
    for _ in range(2):
        briefing = talk.start("compact")
        waiting = briefing.partition("## Waiting for a person's answer\n")[2]
        assert waiting.startswith(f"- question {QUESTION}, asked by the agent: “Which da")
        ask(talk, "pending")
    for _ in range(2):
        ask(talk, "completed", text="Database: SQLite")
    briefing = talk.start("compact")
    assert "Waiting for" not in briefing
    assert "Database: SQLite" in briefing
    actions = project.actions(session_id)
    assert (actions.count("question_asked"), actions.count("question_answered")) == (1, 1)


def test_a_question_that_is_answered_at_once_is_recorded_with_its_answer(
    project: Project, talk: Conversation
) -> None:
    session_id = project.begin()
    talk.start()
    ask(talk, "completed", text="Database: SQLite")
    assert project.actions(session_id)[-2:] == ["question_asked", "question_answered"]


def test_what_is_no_question_of_ours_is_not_recorded(project: Project, talk: Conversation) -> None:
    session_id = project.begin()
    talk.start()
    for response in ("no json", ["x"], {"session_id": 3, "status": "pending"}, "{}"):
        talk.use_tool("mcp__agentforge__ask", response=response)
    talk.use_tool("mcp__other__ask", response={"session_id": QUESTION, "status": "pending"})
    assert project.actions(session_id) == ["session_created", "agent_started"]


# --------------------------------------------------------------------------------------- the gate


def test_a_failed_gate_sends_the_agent_on_with_the_evidence_at_most_so_often(
    project: Project, talk: Conversation
) -> None:
    configure(
        project,
        "[agents]\ngate = true\ngate_rounds = 2\n"
        "[gate]\ncommand = \"sh -c 'echo no-$PWD; exit 3'\"\n",
    )
    session_id = project.begin()
    talk.start()
    talk.prompt()
    answers = [talk.hook("Stop", last_assistant_message="done") for _ in range(3)]
    assert [one.get("decision") for one in answers] == ["block", "block", None]
    assert f"no-{project.folder}" in answers[0]["reason"]
    talk.prompt("again")
    assert talk.hook("Stop", last_assistant_message="done")["decision"] == "block"
    assert project.actions(session_id).count("agent_gate") == 3


def test_a_gate_that_passes_lets_the_turn_end(project: Project, talk: Conversation) -> None:
    configure(project, '[agents]\ngate = true\n[gate]\ncommand = "true"\n')
    session_id = project.begin()
    talk.start()
    assert talk.hook("Stop", last_assistant_message="done") == {}
    assert project.actions(session_id)[-1] == "agent_gate"


def test_a_gate_that_can_not_be_run_lets_the_turn_end(project: Project, talk: Conversation) -> None:
    configure(project, '[agents]\ngate = true\n[gate]\ncommand = "no-such-command-here"\n')
    project.begin()
    talk.start()
    assert talk.hook("Stop", last_assistant_message="done") == {}


# ------------------------------------------------------------------------------- what may go wrong


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"hook_event_name": "Stop"},
        {"hook_event_name": "NoSuchEvent", "session_id": "x"},
        {"hook_event_name": ["Stop"], "session_id": 3},
        {"hook_event_name": "SessionStart", "session_id": "x", "cwd": "/no/such/folder"},
        {"hook_event_name": "SessionStart", "session_id": "x", "cwd": "bad\0folder"},
    ],
)
def test_an_event_of_no_concern_has_no_answer(payload: dict[str, Any]) -> None:
    assert handle("claude-code", payload, {}, stores=stores) is None
    assert handle("nosuch", payload, {}, stores=stores) is None


def test_an_id_that_leads_elsewhere_is_refused(project: Project, talk: Conversation) -> None:
    project.begin()
    talk.name = "../../outside"
    with pytest.raises(ValueError, match="can't name a conversation"):
        talk.start()
    assert not project.conversations.exists()


def test_a_corrupted_session_changes_nothing(
    project: Project, talk: Conversation, begun: str
) -> None:
    file = project.store.session_path(begun)
    file.write_bytes(b"\x00broken")
    talk.spend(100)
    with pytest.raises(Exception, match="not a readable session"):
        talk.use_tool()
    assert file.read_bytes() == b"\x00broken"


def test_a_transcript_that_is_no_file_or_no_json_costs_nothing(
    project: Project, talk: Conversation, begun: str
) -> None:
    talk.transcript.parent.mkdir(parents=True)
    talk.transcript.write_bytes(
        b'{"usage": \n[]\n"usage"\n{"type":"assistant","usage":1}\n\xff"usage"\n'
    )
    assert talk.use_tool() == ({}, {})
    talk.transcript.unlink()
    talk.transcript.mkdir()
    assert talk.use_tool() == ({}, {})
    assert spent(project, begun) == 0


def test_the_answer_is_json_of_plain_characters_whatever_was_said(
    project: Project, talk: Conversation
) -> None:
    project.begin(goal="Größe \u202e\x1b")
    talk.start()
    talk.hook("Stop", last_assistant_message="lone \ud800 surrogate")
    briefing = talk.start("resume")
    assert json.dumps(briefing).isascii()
    assert "\\ud800" in briefing
    assert SessionStore(project.store.base_path).list_sessions()
