"""`agentforge fleet submit`: what the commands behind it begin, a worker runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.fleet_view import FleetView
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from tests.support.fleet import QUICK, Fleet, capturing, workflow

WORKFLOW = """\
schema_version: 1
name: quick
workflow_type: quick
phases:
  - name: one
    code: print("one")
"""
AGENTS = """\
schema_version: 1
name: notes
workflow_type: writing
goal: Notes that people read.
token_budget: 60000
role: You write for people who have five minutes.
files:
  - group: notes
    paths: [notes/]
phases:
  - name: draft
    mode: write
    prompt: Write notes/release.md from what is wanted.
    writes: [notes]
    budget_share: 0.7
    gate: {kind: files, require: [notes/release.md]}
"""
SPECIFICATION = Path(__file__).parents[3] / "examples" / "specs" / "slugs.yaml"


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    return Fleet(database, tmp_path)


@pytest.fixture
def written(tmp_path: Path) -> str:
    path = tmp_path / "quick.yaml"
    path.write_text(WORKFLOW, encoding="utf-8")
    return str(path)


def only_job(fleet: Fleet) -> Any:
    (job,), _ = FleetView(fleet.database).jobs()
    return job


def test_a_workflow_is_begun_and_waits_for_a_worker(fleet: Fleet, written: str) -> None:
    said = fleet.command("fleet", "submit", "--queue", "night", "--priority", "2", written)
    job = only_job(fleet)
    assert (job.session_id, job.state, job.queue, job.priority) == (
        said["session_id"],
        "waiting",
        "night",
        2,
    )
    session = PostgresStore(fleet.database, fleet.base).load(job.session_id)
    assert session is not None
    assert (session.workflow_type, session.current_phase) == ("quick", "one")


def test_a_file_names_the_command_that_it_is_for(
    fleet: Fleet, written: str, tmp_path: Path
) -> None:
    begun = fleet.command("fleet", "submit", "--queue", "night", written)["session_id"]
    assert only_job(fleet).queue == "night"
    specified = fleet.command("fleet", "submit", str(SPECIFICATION), "--agent", "true")[
        "session_id"
    ]
    driven = tmp_path / "driven.yaml"
    driven.write_text(AGENTS, encoding="utf-8")
    agents = fleet.command("fleet", "submit", str(driven), "--agent", "true", "--about", "notes")
    store = PostgresStore(fleet.database, fleet.base)
    kinds = [store.load(one) for one in (begun, specified, agents["session_id"])]
    assert [one and one.workflow_type for one in kinds] == ["quick", "tdflow", "writing"]


def test_help_needs_no_store(fleet: Fleet) -> None:
    with capturing() as written:
        assert run(["fleet", "submit", "--help"]) == 0
    assert "Run a workflow" in written.getvalue()


def test_a_file_that_is_not_there_is_named(fleet: Fleet) -> None:
    error = fleet.command("fleet", "submit", "nothing.yaml")["error"]
    assert (error["type"], error["path"]) == ("InvalidWorkflow", "nothing.yaml")


def test_what_is_not_to_run_yet_is_scheduled(fleet: Fleet, written: str) -> None:
    fleet.command("fleet", "submit", "--at", "2100-01-01T12:00+01:00", written)
    job = only_job(fleet)
    assert (job.state, job.scheduled_at) == ("scheduled", datetime(2100, 1, 1, 11, tzinfo=UTC))
    later = fleet.command("fleet", "submit", "--in", "8h", written)
    found, _ = FleetView(fleet.database).jobs(session_id=later["session_id"])
    left = found[0].scheduled_at - found[0].since
    assert timedelta(hours=7, minutes=50) < left <= timedelta(hours=8)


def test_an_agents_work_needs_no_gates_here(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is compiled or looked for: the worker has what it needs."""
    monkeypatch.setenv("AGENTFORGE_CACHE_DIR", str(tmp_path / "nothing"))
    said = fleet.command("fleet", "submit", "spec", "notes", "--agent", "true", "--about", "notes")
    assert only_job(fleet).session_id == said["session_id"]
    assert not (tmp_path / "nothing").exists()


def test_a_session_that_is_there_is_handed_over_and_becomes_active(fleet: Fleet) -> None:
    session_id = fleet.submit(workflow(QUICK))
    fleet.command("fleet", "cancel", session_id)
    assert FleetView(fleet.database).jobs() == ([], 0)
    assert fleet.command("fleet", "submit", "--session", session_id)["session_id"] == session_id
    assert fleet.state(session_id) is SessionState.ACTIVE
    assert only_job(fleet).session_id == session_id


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--session", "session_20200101_000000_000000"], "SessionNotFound"),
        (["--at", "tomorrow", "W"], "BadParameter"),
        (["--at", "2100-01-01T00:00", "--in", "1h", "W"], "BadParameter"),
        (["--in", "soon", "W"], "InvalidDuration"),
        (["--queue", "", "W"], "BadParameter"),
        (["--priority", str(2**31), "W"], "BadParameter"),
        (["--session", "s", "W"], "BadParameter"),
        (["spec", "notes", "--agent", "true", "--record", "here"], "BadParameter"),
        (["spec", "notes", "--agent", "true", "--then-tdflow"], "BadParameter"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_begun(
    fleet: Fleet, written: str, words: list[str], error: str
) -> None:
    given = [written if one == "W" else one for one in words]
    assert fleet.command("fleet", "submit", *given)["error"]["type"] == error
    assert FleetView(fleet.database).jobs() == ([], 0)
    assert PostgresStore(fleet.database, fleet.base).list_sessions() == []


def test_one_that_no_workflow_began_is_refused(fleet: Fleet) -> None:
    session = SessionManager(PostgresStore(fleet.database, fleet.base)).create("hand", "one")
    said = fleet.command("fleet", "submit", "--session", session.session_id)
    assert said["error"]["type"] == "NotAWorkflowSession"
    assert FleetView(fleet.database).jobs() == ([], 0)


@pytest.mark.parametrize("command", ["submit", "worker", "workers", "jobs"])
def test_a_fleet_needs_a_store_that_machines_share(fleet: Fleet, command: str) -> None:
    said = fleet.command("--store", str(fleet.base), "fleet", command)
    assert said["error"]["type"] == "BadParameter"
    assert "PostgreSQL" in said["error"]["message"]
