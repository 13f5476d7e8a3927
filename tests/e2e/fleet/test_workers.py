"""Workers as processes of their own: they take jobs, die, are stopped, and lose the store."""

from __future__ import annotations

import http.client
import signal
from pathlib import Path

from agentforge_sessions.adapters.postgres.database import Database
from agentforge_sessions.adapters.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionState
from agentforge_sessions.harness.history_events import PhaseSucceeded, SessionPaused
from tests.support.fleet import QUICK, WAITING, Fleet, workflow
from tests.support.postgres import PostgresServer
from tests.support.promptness import wait_until


def phases_passed(fleet: Fleet, session_id: str) -> list[str | None]:
    session = PostgresStore(fleet.database, fleet.base).load(session_id)
    assert session is not None
    return [one.phase for one in session.history if one.event_type is PhaseSucceeded]


def test_a_killed_workers_session_goes_on_with_another(fleet: Fleet) -> None:
    """From the last checkpoint: what was passed is not repeated."""
    first = fleet.worker()
    session_id = fleet.submit(workflow(QUICK, WAITING, QUICK))
    fleet.wait_until_begun(session_id)
    assert phases_passed(fleet, session_id) == ["a"]
    second = fleet.worker()
    second.wait_for("fleet.worker.started")
    first.kill()
    recovered = second.wait_for("fleet.session.recovered")
    assert recovered["session_id"] == session_id
    fleet.go(session_id)
    fleet.wait_for(session_id, SessionState.COMPLETED)
    assert phases_passed(fleet, session_id) == ["a", "b", "c"]
    wait_until(lambda: fleet.jobs(session_id) == ["aborted", "succeeded"])


def test_a_worker_that_is_stopped_hands_its_session_back(fleet: Fleet) -> None:
    first = fleet.worker("--grace", "0")
    session_id = fleet.submit(workflow(WAITING, QUICK))
    fleet.wait_until_begun(session_id)
    first.signal(signal.SIGTERM)
    assert first.process.wait(60) == 0
    assert fleet.jobs(session_id) == ["aborted", "todo"]
    assert "Traceback" not in fleet.said()
    assert fleet.state(session_id) is SessionState.ACTIVE
    fleet.worker()
    fleet.go(session_id)
    fleet.wait_for(session_id, SessionState.COMPLETED)


def test_a_worker_whose_connections_are_ended_goes_on(
    fleet: Fleet, server: PostgresServer, tmp_path: Path
) -> None:
    worker = fleet.worker()
    running = fleet.submit(workflow(WAITING, QUICK))
    fleet.wait_until_begun(running)
    server.end_connections(fleet.database.url)
    with Database(fleet.database.url) as database:
        after = Fleet(database, tmp_path)
        after.go(running)
        after.wait_for(running, SessionState.COMPLETED)
        again = after.submit(workflow(QUICK))
        after.wait_for(again, SessionState.COMPLETED)
        assert phases_passed(after, running) == ["a", "b"]
    assert worker.process.poll() is None


def test_session_processes_end_with_their_worker(fleet: Fleet) -> None:
    worker = fleet.worker()
    session_id = fleet.submit(workflow(WAITING))
    fleet.wait_until_begun(session_id)
    children = worker.children()
    worker.process.kill()
    worker.process.wait()
    wait_until(lambda: not any(one.is_running() for one in children))


def test_what_is_cancelled_stops_within_moments_and_is_paused(fleet: Fleet) -> None:
    """It goes on when it is submitted again."""
    worker = fleet.worker()
    running = fleet.submit(workflow(WAITING))
    waiting = fleet.submit(workflow(QUICK))
    fleet.wait_until_begun(running)
    assert [one["state"] for one in fleet.command("jobs")["jobs"]] == ["running", "waiting"]
    said = fleet.command("cancel", running, "--reason", "not now")
    assert (said["state"], said["was_running"]) == ("paused", True)
    fleet.wait_for(waiting, SessionState.COMPLETED)
    assert fleet.jobs(running) == ["aborted"]
    session = PostgresStore(fleet.database, fleet.base).load(running)
    assert session is not None
    event = session.history[-1].event
    assert isinstance(event, SessionPaused)
    assert (event.cause, event.reason) == ("cancelled", "not now")
    assert worker.process.poll() is None

    fleet.go(running)
    assert fleet.command("submit", "--session", running)["session_id"] == running
    fleet.wait_for(running, SessionState.COMPLETED)


def test_a_waiting_session_that_is_cancelled_has_no_job(fleet: Fleet) -> None:
    session_id = fleet.submit(workflow(QUICK))
    assert fleet.command("cancel", session_id)["was_running"] is False
    assert fleet.jobs(session_id) == []
    assert fleet.state(session_id) is SessionState.PAUSED
    assert fleet.command("cancel", session_id)["error"]["type"] == "NotSubmitted"


def test_the_fleet_is_shown_as_it_stands(fleet: Fleet) -> None:
    assert fleet.command("workers")["workers"] == []
    worker = fleet.worker("--concurrency", "2", "--queue", "other")
    later = fleet.submit(workflow(QUICK))
    running = fleet.submit(workflow(WAITING), queue="other")
    fleet.wait_until_begun(running)
    (shown,) = fleet.command("workers")["workers"]
    assert (shown["pid"], shown["queues"], shown["concurrency"]) == (worker.pid, ["other"], 2)
    assert shown["running"] == 1
    jobs = fleet.command("jobs")["jobs"]
    assert [(one["session_id"], one["state"]) for one in jobs] == [
        (running, "running"),
        (later, "waiting"),
    ]
    assert jobs[0]["worker"] == f"{shown['host']}:{worker.pid}"
    assert fleet.command("jobs", "--failed")["jobs"] == []


def test_a_worker_says_how_it_is_and_what_it_did(fleet: Fleet, server: PostgresServer) -> None:
    worker = fleet.worker("--port", "0")
    port = worker.wait_for("fleet.worker.serves")["port"]
    worker.wait_for("fleet.worker.started")
    done = fleet.submit(workflow(QUICK))
    fleet.wait_for(done, SessionState.COMPLETED)
    wait_until(lambda: ask(port, "/healthz") == (200, "ok\n"))
    wait_until(lambda: 'agentforge_jobs_total{outcome="completed"} 1.0' in ask(port, "/metrics")[1])
    fleet.submit(workflow(WAITING))
    fleet.submit(workflow(WAITING))
    wait_until(lambda: "agentforge_jobs_running 1.0" in ask(port, "/metrics")[1])
    wait_until(lambda: "agentforge_jobs_waiting 1.0" in ask(port, "/metrics")[1])
    assert "agentforge_phase_seconds_count 1.0" in ask(port, "/metrics")[1]
    assert ask(port, "/else")[0] == 404


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
