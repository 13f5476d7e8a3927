"""What the record tells of conversations: one session, carried on by one program after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.pages.session_page import session_report
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.views.conversations import budget_stops, conversations
from agentforge_sessions.workflows.run.progress import charges
from tests.support.agent_conversations import CodexConversation, Conversation, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def carried_on(project: Project) -> SessionContext:
    """Return a session that Claude Code began, and Codex went on with till it was stopped."""
    session_id = project.begin(budget=5_000)
    claude = Conversation(project, "claude-conversation")
    claude.start()
    claude.prompt("Write <the> parser")
    made = project.folder / "parser.py"
    made.write_text("p")
    for _ in range(2):
        claude.use_tool("Write", file_path=str(made), response={"type": "create"})
    claude.spend(1_000)
    claude.hook("PostCompact", trigger="auto", compact_summary="Half done.")
    claude.hook("Stop", last_assistant_message="The parser is written.")
    claude.prompt("Mend it")
    claude.hook("Stop", last_assistant_message="It is mended.")
    codex = CodexConversation(project, "codex-conversation")
    codex.start()
    codex.write({"type": "turn_context", "payload": {"model": "model-c"}})
    codex.prompt("And the printer")
    codex.spend(4_500)
    codex.use_tool()
    return project.session(session_id)


def test_each_conversation_is_told_with_prompts_turns_files_compactions_and_models(
    project: Project,
) -> None:
    session = carried_on(project)
    claude, codex = conversations(session.history)
    assert (claude.program, claude.agent_session) == ("claude-code", "claude-conversation")
    assert (claude.prompts, claude.turns, claude.compactions) == (2, 2, 1)
    assert (claude.files, claude.models) == (["parser.py"], {"model-a": 1_000})
    assert (codex.program, codex.prompts, codex.turns) == ("codex", 1, 0)
    assert codex.models == {"model-c": 4_500}
    assert claude.first < claude.last < codex.first
    assert claude.tokens + codex.tokens == session.token_budget.tokens_used
    assert [entry.details for entry in budget_stops(session.history)] == [
        "the budget is spent: 5,500 of 5,000 tokens"
    ]


def test_the_report_tells_them_too(project: Project) -> None:
    session = carried_on(project)
    page = session_report(PageSource(session, project.store))
    assert '<h2 id="conversations-title">Conversations</h2>' in page
    assert "claude-code <code>claude-conversation</code>" in page
    assert "model-c: 4,500" in page
    assert "<h3>Stopped because of the budget</h3>" in page
    assert "the budget is spent: 5,500 of 5,000 tokens" in page
    assert "Write &lt;the&gt; parser" in page
    assert "Tokens left: -500 of 5,000" in page
    assert sum(cost for _, cost in charges(session.history)) == 5_500


def test_a_session_without_any_has_no_such_part(project: Project) -> None:
    session = project.session(project.begin())
    assert conversations(session.history) == budget_stops(session.history) == []
    assert "Conversations" not in session_report(PageSource(session, project.store))
