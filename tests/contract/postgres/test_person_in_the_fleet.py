"""A run that asks a person ends, and an answer from anywhere has it taken up again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from agentforge_sessions.entrypoints.terminal.drafts.session_text import asker_name
from agentforge_sessions.entrypoints.terminal.question_queue import StoredQuestions
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.questions import PostgresQuestions
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.questions import QuestionSessions, SessionStatus
from agentforge_sessions.wiring.phases.question_channel import (
    QuestionSessionChannel,
    agents_questions,
)
from agentforge_sessions.workflows import WorkflowRunner
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentOption, AgentQuestion
from tests.support.agents import GOOD, GREEN, FakeGates, ScriptedAgent, tdflow_work

WIDTH: Final = AgentQuestion(
    prompt="How wide is an integer?",
    title="Width",
    options=[AgentOption(label="any"), AgentOption(label="64 bits")],
)
ASKS: Final = AgentAnswer(text="", questions=[WIDTH])


@define
class Fleet:
    """A database, and workers and people that come and go."""

    database: Database
    place: Path
    agent: ScriptedAgent = field(
        factory=lambda: ScriptedAgent(script={**GOOD, "green": [ASKS, GREEN]})
    )
    opened: list[PostgresQuestions] = field(factory=list)

    def questions(self) -> PostgresQuestions:
        self.opened.append(PostgresQuestions(self.database))
        return self.opened[-1]

    def worker(self) -> WorkflowRunner:
        store = PostgresStore(self.database, self.place / "sessions")
        sessions = agents_questions(store=self.questions(), sessions=store)
        manager = SessionManager(store, channel=QuestionSessionChannel(sessions))
        return WorkflowRunner(manager, FakeGates(), answers_timeout_s=0.0)

    def submit(self, session_id: str) -> None:
        with self.database.connection() as connection:
            connection.execute(
                "insert into agentforge.submissions (session_id, queue) values (%s, 'work')",
                (session_id,),
            )

    def jobs(self) -> list[Any]:
        with self.database.connection() as connection:
            rows = connection.execute(
                "select args->>'session_id' from agentforge.procrastinate_jobs order by id"
            )
            return [row[0] for row in rows]

    def person(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of a person on another machine."""
        return subprocess.run(
            [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *words],
            env={**os.environ, "AGENTFORGE_STORE": self.database.url},
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(database, tmp_path)
    yield fleet
    for one in fleet.opened:
        one.close()


def test_an_answer_from_another_machine_has_the_run_taken_up(fleet: Fleet) -> None:
    began = fleet.worker().start(tdflow_work(), fleet.agent)
    assert began.state is SessionState.PAUSED
    asked = began.waiting_for
    assert asked is not None
    fleet.submit(began.session_id)

    queue = StoredQuestions(QuestionSessions(store=fleet.questions()))
    (waiting,) = queue.listing().waiting
    assert waiting.session_id == asked
    assert waiting.asker is not None
    assert waiting.asker.session == began.session_id
    assert began.session_id.endswith(asker_name(waiting.asker).removeprefix("agent session "))
    assert fleet.jobs() == []

    answered = fleet.person("answer", asked[:8], "--select", "any")
    assert answered.returncode == 0, answered.stderr
    assert fleet.jobs() == [began.session_id]
    again = fleet.person("answer", asked, "--select", "64 bits")
    assert again.returncode != 0
    assert fleet.jobs() == [began.session_id]
    assert queue.listing().waiting == ()

    done = fleet.worker().resume(began.session_id, fleet.agent)
    assert (done.state, done.waiting_for) == (SessionState.COMPLETED, None)
    assert "Q: How wide is an integer?\nA: any" in fleet.agent.requests[-2].prompt


def test_a_rejection_has_it_taken_up_as_well(fleet: Fleet) -> None:
    began = fleet.worker().start(tdflow_work(), fleet.agent)
    fleet.submit(began.session_id)
    assert began.waiting_for is not None
    QuestionSessions(store=fleet.questions()).reject_session(began.waiting_for, "no")
    assert fleet.jobs() == [began.session_id]
    ended = fleet.worker().resume(began.session_id, fleet.agent)
    assert ended.waiting_for is None


def test_the_question_of_a_session_that_ended_is_withdrawn_by_who_looks_next(
    fleet: Fleet,
) -> None:
    began = fleet.worker().start(tdflow_work(), fleet.agent)
    assert began.waiting_for is not None
    store = PostgresStore(fleet.database, fleet.place / "sessions")
    manager = SessionManager(store)  # it knows no channel
    manager.load(began.session_id)
    manager.abort("not wanted")
    looking = agents_questions(store=fleet.questions(), sessions=store)
    assert looking.pending() == []
    found = looking.get(began.waiting_for)
    assert found.status is SessionStatus.ABANDONED
    assert found.record.end_reason == f"session {began.session_id} was aborted"


def test_a_folder_that_is_named_is_a_folder_still(fleet: Fleet) -> None:
    folder = fleet.place / "questions"
    words = ("Which?", "-o", "a", "-o", "b", "--no-wait")
    in_folder = fleet.person("questions", "ask", *words, "--questions", str(folder))
    in_store = fleet.person("questions", "ask", *words)
    assert (in_folder.returncode, in_store.returncode) == (0, 0), in_store.stderr
    stored = QuestionSessions(store=fleet.questions())
    assert stored.store.names() == [in_store.stdout.strip()]
    assert QuestionSessions(folder).store.names() == [in_folder.stdout.strip()]
    assert not (fleet.place / ".agentforge" / "questions").exists()
