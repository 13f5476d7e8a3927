"""A script that asks, in a store of rows: woken by the answer, it goes on on another machine."""

from __future__ import annotations

from pathlib import Path

from agentforge_sessions.entrypoints.worker.session_runs import look_at
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.harness.views.question_entries import open_questions
from agentforge_sessions.wiring.bootstrap import agents_channel
from agentforge_sessions.wiring.fleet import SessionRunners
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows import Script
from tests.support.fleet import Fleet, workflow

CODE = """
from agentforge import ask
with open('log', 'w') as log:
    print('begun', file=log)
    print(ask('Deploy?'), file=log)
"""


def test_script_that_asks_is_woken_by_the_answer_and_goes_on_elsewhere(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "objects").mkdir()
    objects = (tmp_path / "objects").as_uri()
    session_id = Fleet(database, tmp_path).submit(workflow(Script(code=CODE, artifacts=("log",))))
    jobs = "select count(*) from agentforge.procrastinate_jobs where status = 'todo'"
    with database.transaction() as connection:
        connection.execute("set local search_path to agentforge")
        connection.execute("delete from procrastinate_jobs")

    def look(machine: str) -> Look:
        runners = SessionRunners(database.url, tmp_path / machine, objects=objects)
        try:
            return look_at(session_id, lambda: runners.manager_of(session_id, 1), runners.runner)
        finally:
            runners.close()

    asked = look("a")
    assert (asked.ending, asked.cause) == (Ending.PAUSED, "person"), asked
    assert database.one(jobs, ()) == (0,)
    store = PostgresStore(database, tmp_path / "b")
    session = store.load(session_id)
    assert session is not None
    [question] = open_questions(session)
    channel = agents_channel(store=store)
    assert isinstance(channel, QuestionSessionChannel)
    assert channel.answer(question.question_id, ["yes"])
    assert database.one(jobs, ()) == (1,)
    done = look("b")
    assert done.ending is Ending.COMPLETED, done
    assert (store.workspace_path(session_id) / "log").read_text() == "begun\nyes\n"
