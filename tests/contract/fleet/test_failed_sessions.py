"""Sessions that the fleet has given up: which are listed, and how all are taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.fleet_view import FleetView
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from tests.support.fleet import QUICK, Fleet, workflow


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    return Fleet(database, tmp_path)


def given_up(fleet: Fleet, *, queue: str = "default") -> str:
    """Submit a session and have its job fail, as a worker that gives it up does."""
    session_id = fleet.submit(workflow(QUICK), queue=queue)
    with fleet.database.transaction() as connection:
        connection.execute("set local search_path = agentforge")
        (worker,) = connection.execute(
            "select * from procrastinate_register_worker_v1()"
        ).fetchone() or (None,)
        (job,) = connection.execute(
            "select id from procrastinate_fetch_job_v2(%s, %s)", ([queue], worker)
        ).fetchone() or (None,)
        connection.execute("select procrastinate_finish_job_v1(%s, 'failed', false)", (job,))
        connection.execute("select count_failure(%s, 'the gate is broken')", (session_id,))
    manager = SessionManager(PostgresStore(fleet.database, fleet.base))
    manager.open(session_id)
    manager.pause("the gate is broken", cause="failed")
    manager.release()
    return session_id


def listed(fleet: Fleet, *words: str) -> list[tuple[str, str]]:
    return [
        (one["session_id"], one["state"]) for one in fleet.command("fleet", "jobs", *words)["jobs"]
    ]


def end(fleet: Fleet, session_id: str) -> None:
    manager = SessionManager(PostgresStore(fleet.database, fleet.base))
    manager.open(session_id)
    manager.abort("it is not wanted any more")
    manager.release()


def test_a_failed_job_is_listed_with_its_reason(fleet: Fleet) -> None:
    session_id = given_up(fleet)
    assert listed(fleet) == listed(fleet, "--failed") == [(session_id, "failed")]
    (job,) = fleet.command("fleet", "jobs")["jobs"]
    assert job["reason"] == "the gate is broken"


def test_a_failed_job_of_a_session_that_is_done_is_left_out(fleet: Fleet) -> None:
    done, deleted, open_ = given_up(fleet), given_up(fleet), given_up(fleet)
    end(fleet, done)
    PostgresStore(fleet.database, fleet.base).delete(deleted)
    assert listed(fleet) == listed(fleet, "--failed") == [(open_, "failed")]
    assert FleetView(fleet.database).jobs()[1] == 1


def test_a_failed_job_of_a_session_that_was_submitted_again_is_left_out(fleet: Fleet) -> None:
    session_id = given_up(fleet)
    fleet.command("fleet", "submit", "--session", session_id)
    assert listed(fleet) == [(session_id, "waiting")]
    assert listed(fleet, "--failed") == []


def test_a_session_that_was_cancelled_is_no_failure_any_more(fleet: Fleet) -> None:
    session_id = given_up(fleet)
    fleet.command("fleet", "cancel", session_id)
    assert listed(fleet, "--failed") == []
    assert fleet.command("fleet", "submit", "--failed") == {"submitted": [], "left": []}


def test_all_that_failed_are_taken_up_again_in_the_queues_that_they_had(fleet: Fleet) -> None:
    first, night, done = given_up(fleet), given_up(fleet, queue="night"), given_up(fleet)
    end(fleet, done)
    waiting = fleet.submit(workflow(QUICK))
    said = fleet.command("fleet", "submit", "--failed")
    assert sorted(said["submitted"]) == sorted([first, night])
    assert said["left"] == []
    found, total = FleetView(fleet.database).jobs()
    assert {(one.session_id, one.queue, one.state, one.attempts) for one in found} == {
        (first, "default", "waiting", 0),
        (night, "night", "waiting", 0),
        (waiting, "default", "waiting", 0),
    }
    assert total == 3
    assert fleet.state(first) is fleet.state(night) is SessionState.ACTIVE
    assert "No session has failed" in fleet.shown("fleet", "submit", "--failed")


def test_one_that_cant_be_taken_up_is_named_and_the_others_are(fleet: Fleet) -> None:
    broken, fine = given_up(fleet), given_up(fleet)
    fleet.database.one(
        "delete from agentforge.session_attachments where session_id = %s returning name", (broken,)
    )
    said = fleet.command("fleet", "submit", "--failed")
    assert said["submitted"] == [fine]
    assert [(one["session_id"], one["type"]) for one in said["left"]] == [
        (broken, "NotAWorkflowSession")
    ]


@pytest.mark.parametrize("words", [["--session", "x"], ["run", "w.yaml"]])
def test_it_names_no_other_work(fleet: Fleet, words: list[str]) -> None:
    assert fleet.command("fleet", "submit", "--failed", *words)["error"]["type"] == "BadParameter"
