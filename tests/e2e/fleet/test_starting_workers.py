"""Workers that start before their database is there, and workers that are not allowed the same."""

from __future__ import annotations

import http.client
import tempfile
from pathlib import Path

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from agentforge_sessions.harness import SessionState
from agentforge_sessions.workflows import AgentWork, FileGroup, Gate, Phase, Workflow
from agentforge_sessions.workflows.agents.choice import parse_agent
from tests.support.fleet import QUICK, Fleet, fleet_of, workflow
from tests.support.own_postgres import own_postgres
from tests.support.postgres import PostgresServer
from tests.support.promptness import wait_until

NOTES = Workflow(
    name="notes",
    workflow_type="writing",
    role="You write notes.",
    groups=[FileGroup(name="notes", paths=["notes/"])],
    phases=[
        Phase(
            name="draft",
            mode="write",
            prompt="Write notes/a.md.",
            writes=["notes"],
            gate=Gate(kind="files", require=["notes/a.md"]),
        )
    ],
    token_budget=100_000,
)


def test_a_worker_that_starts_while_the_database_is_away_waits_for_it(
    server: PostgresServer, tmp_path: Path
) -> None:
    del server  # its programs can be run by now
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with own_postgres(Path(name) / "own") as own:
            with Database(own.url) as database:
                migrate(database)
                session_id = Fleet(database, tmp_path).submit(workflow(QUICK))
            own.kill()
            with Database(own.url) as database, fleet_of(database, tmp_path) as fleet:
                worker = fleet.worker("--port", "0")
                port = worker.wait_for("fleet.worker.serves")["port"]
                said = worker.wait_for("fleet.worker.restarting")
                assert "lost the store" in said["reason"]
                assert healthy(port)[0] == 503
                own.start()
                fleet.wait_for(session_id, SessionState.COMPLETED)
                wait_until(lambda: healthy(port)[0] == 200)


def healthy(port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_worker_whose_database_has_no_tables_ends_with_what_to_do(
    empty: Database, tmp_path: Path
) -> None:
    with fleet_of(empty, tmp_path) as fleet:
        worker = fleet.worker()
        assert worker.process.wait(60) == 6
        assert "store migrate" in worker.said()


def test_an_agent_goes_to_the_worker_that_asks_it_past_the_one_that_does_not(fleet: Fleet) -> None:
    agent = parse_agent("printf '````text:notes/a.md\\na note\\n````\\n'")
    refusing = fleet.worker()
    session_id = fleet.submit(AgentWork(workflow=NOTES, name="notes", subject="notes", agent=agent))
    said = refusing.wait_for("fleet.session.passed_on")
    assert said["session_id"] == session_id
    wait_until(lambda: fleet.jobs(session_id) == ["succeeded", "todo"])
    (job,) = fleet.command("fleet", "jobs")["jobs"]
    assert (job["queue"], job["session_state"]) == ("default@command", "active")
    assert "agent_commands = true" in job["reason"]
    allowing = fleet.worker("--agent-commands")
    fleet.wait_for(session_id, SessionState.COMPLETED)
    assert fleet.file(session_id, "notes/a.md").read_text() == "a note\n"
    assert len(refusing.events("fleet.job.started")) == 1
    assert allowing.events("fleet.session.passed_on") == []
