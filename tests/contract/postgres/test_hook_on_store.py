"""The hook of agent programs on a database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionContext
from tests.support.agent_conversations import Conversation, Project
from tests.support.person import persons_folders
from tests.support.trusting import trusted

SECRET = "pa55w0rd"


@pytest.fixture
def project(tmp_path: Path, database: Database) -> Project:
    """A project whose sessions are in a database."""
    found = Project(tmp_path / "project")
    parts = urlsplit(database.url)
    url = urlunsplit(parts._replace(netloc=f"postgres:{SECRET}@"))
    trusted(
        found.data_folder / "config.toml",
        f"[store]\nurl = {json.dumps(url)}\n",
    )
    return found


@pytest.fixture
def talk(project: Project) -> Conversation:
    return Conversation(project)


def only(database: Database) -> SessionContext:
    store = PostgresSessions(database)
    (session_id,) = store.list_sessions()
    session = store.load(session_id)
    assert session is not None
    return session


def test_a_conversation_works_on_a_session_of_the_store(
    project: Project, talk: Conversation, database: Database
) -> None:
    talk.hook("UserPromptSubmit", prompt="Build a scheduler")
    session = only(database)
    assert session.goal == "Build a scheduler"
    talk.spend(700)
    talk.hook("PostToolUse", tool_name="Read", tool_input={}, tool_response={})
    talk.hook("Stop")
    assert only(database).token_budget.tokens_used == 700
    revision = only(database).revision
    talk.hook("PreToolUse", tool_name="Read", tool_input={})  # nothing is new
    assert only(database).revision == revision
    assert not (project.data_folder / "sessions" / session.session_id / "session.yaml").exists()
    assert "Build a scheduler" in json.dumps(talk.hook("SessionStart", source="compact"))


def test_two_conversations_of_a_branch_share_the_session_that_began_here(
    project: Project, talk: Conversation, database: Database
) -> None:
    talk.hook("UserPromptSubmit", prompt="Build it")
    Conversation(project, "conversation-2").hook("UserPromptSubmit", prompt="And test it")
    prompts = [one.details for one in only(database).history if one.action == "agent_prompted"]
    assert len(prompts) == 2


def test_a_budget_that_others_spent_stops_the_agent(
    project: Project, talk: Conversation, database: Database
) -> None:
    talk.hook("UserPromptSubmit", prompt="Build it")
    session = only(database)
    session.token_budget.tokens_used = session.token_budget.total_budget
    session.add_history("noted")
    PostgresSessions(database).save(session)
    talk.spend(10)
    stopped = talk.hook("PreToolUse", tool_name="Read", tool_input={})
    assert "budget" in json.dumps(stopped)


def test_no_password_is_written_anywhere(
    project: Project, talk: Conversation, database: Database
) -> None:
    talk.hook("UserPromptSubmit", prompt="Build it")
    config = project.data_folder / "config.toml"
    places = (project.folder, *map(Path, persons_folders().values()))
    found = (path for place in places for path in place.rglob("*"))
    written = [path for path in found if path.is_file() and path != config]
    assert written
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path


def test_a_conversation_goes_on_with_the_session_that_it_is_bound_to(
    project: Project, talk: Conversation, database: Database
) -> None:
    talk.hook("UserPromptSubmit", prompt="The first")
    first = only(database).session_id
    for _ in range(2):
        PostgresSessions(database).save(SessionContext.create(goal="of another project"))
    talk.spend(40)
    talk.hook("Stop")
    found = PostgresSessions(database).load(first)
    assert found is not None
    assert found.token_budget.tokens_used == 40


def test_a_session_of_the_store_is_never_guessed(
    project: Project, talk: Conversation, database: Database
) -> None:
    """It may be another project's, also when it is the only one."""
    others = SessionContext.create(goal="of another project")
    PostgresSessions(database).save(others)
    assert talk.hook("SessionStart", source="startup") == {}
    talk.spend(40)
    talk.hook("UserPromptSubmit", prompt="Mine")
    assert PostgresSessions(database).load(others.session_id) == others
    assert len(PostgresSessions(database).list_sessions()) == 2


def test_a_session_that_is_named_is_found_in_the_store(tmp_path: Path, database: Database) -> None:
    sessions = [SessionContext.create(goal=f"goal {number}") for number in range(2)]
    for session in sessions:
        PostgresSessions(database).save(session)
    talk = Conversation(Project(tmp_path / "project"))
    talk.environment = {
        "AGENTFORGE_STORE": database.url,
        "AGENTFORGE_SESSION": sessions[0].session_id,
    }
    assert "goal 0" in json.dumps(talk.hook("SessionStart", source="startup"))


def test_a_store_that_is_away_is_said(project: Project, talk: Conversation) -> None:
    talk.hook("UserPromptSubmit", prompt="Build it")
    talk.environment = {"AGENTFORGE_STORE": f"postgresql://me:{SECRET}@127.0.0.1:1/x"}
    answer = talk.hook("UserPromptSubmit", prompt="More")
    assert "127.0.0.1:1" in answer["systemMessage"]
    assert SECRET not in str(answer)


def test_a_hook_on_files_loads_no_database(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    talk = Conversation(project)
    project.begin()
    program = (
        "import sys; from agentforge_sessions.entrypoints.hook import main\n"
        "assert main.run(['claude-code'], sys.stdin.buffer.read(), {})\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in "
        "('psycopg', 'psycopg_pool', 'procrastinate') or 'postgres' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(talk.payload("SessionStart", source="startup")),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.strip() == ""
