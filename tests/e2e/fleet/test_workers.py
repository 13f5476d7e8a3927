"""Workers as processes of their own, with sessions that run in the sandbox.

What a worker does in its whole life is held to on a real queue in
`tests/contract/fleet/test_fleet_worker.py`, without processes that run anything.
"""

from __future__ import annotations

import http.client
import signal

from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionState
from agentforge_sessions.harness.domain.history_events import PhaseSucceeded, SessionPaused
from tests.support.fleet import QUICK, WAITING, Fleet, workflow
from tests.support.promptness import wait_until


def phases_passed(fleet: Fleet, session_id: str) -> list[str | None]:
    session = PostgresStore(fleet.database, fleet.base).load(session_id)
    assert session is not None
    return [one.phase for one in session.history if one.event_type is PhaseSucceeded]


def test_a_killed_workers_session_goes_on_with_another(fleet: Fleet) -> None:
    """From the last checkpoint: what was passed is not repeated. Its processes end, too."""
    first = fleet.worker()
    session_id = fleet.submit(workflow(QUICK, WAITING, QUICK))
    fleet.wait_until_begun(session_id)
    assert phases_passed(fleet, session_id) == ["a"]
    children = first.children()
    first.process.kill()
    first.process.wait()
    second = fleet.worker()
    assert second.wait_for("fleet.session.recovered")["session_id"] == session_id
    wait_until(lambda: not any(one.is_running() for one in children))
    fleet.go(session_id)
    fleet.wait_for(session_id, SessionState.COMPLETED)
    assert phases_passed(fleet, session_id) == ["a", "b", "c"]
    wait_until(lambda: fleet.jobs(session_id) == ["aborted", "succeeded"])


def test_a_worker_that_is_stopped_hands_its_session_back(fleet: Fleet) -> None:
    worker = fleet.worker("--grace", "0")
    session_id = fleet.submit(workflow(WAITING))
    fleet.wait_until_begun(session_id)
    children = worker.children()
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    assert fleet.jobs(session_id) == ["aborted", "todo"]
    assert fleet.state(session_id) is SessionState.ACTIVE
    wait_until(lambda: not any(one.is_running() for one in children))
    assert "Traceback" not in fleet.said()


def test_a_worker_is_shown_and_measured_and_stops_what_is_cancelled(fleet: Fleet) -> None:
    assert fleet.command("fleet", "workers")["workers"] == []
    worker = fleet.worker("--port", "0", "--concurrency", "2", "--queue", "other")
    port = worker.wait_for("fleet.worker.serves")["port"]
    later = fleet.submit(workflow(QUICK))
    running = fleet.submit(workflow(WAITING), queue="other")
    fleet.wait_until_begun(running)

    (shown,) = fleet.command("fleet", "workers")["workers"]
    assert (shown["pid"], shown["queues"], shown["concurrency"]) == (worker.pid, ["other"], 2)
    assert shown["running"] == 1
    jobs = fleet.command("fleet", "jobs")["jobs"]
    assert [(one["session_id"], one["state"]) for one in jobs] == [
        (running, "running"),
        (later, "waiting"),
    ]
    assert jobs[0]["worker"] == f"{shown['host']}:{worker.pid}"
    assert f"on {jobs[0]['worker']}" in fleet.shown("show", running)
    assert "waiting for" in fleet.shown("show", later)
    wait_until(lambda: ask(port, "/healthz") == (200, "ok\n"))
    assert "agentforge_jobs_running 1.0" in ask(port, "/metrics")[1]

    said = fleet.command("fleet", "cancel", running, "--reason", "not now")
    assert (said["state"], said["was_running"]) == ("paused", True)
    wait_until(lambda: fleet.jobs(running) == ["aborted"])
    session = PostgresStore(fleet.database, fleet.base).load(running)
    assert session is not None
    event = session.history[-1].event
    assert isinstance(event, SessionPaused)
    assert (event.cause, event.reason) == ("cancelled", "not now")
    wait_until(lambda: 'agentforge_jobs_total{outcome="cancelled"} 1.0' in ask(port, "/metrics")[1])

    fleet.go(running)
    fleet.command("fleet", "submit", "--queue", "other", "--session", running)
    fleet.wait_for(running, SessionState.COMPLETED)
    wait_until(lambda: "agentforge_phase_seconds_count 1.0" in ask(port, "/metrics")[1])
    assert worker.process.poll() is None


def test_a_waiting_session_that_is_cancelled_has_no_job(fleet: Fleet) -> None:
    session_id = fleet.submit(workflow(QUICK))
    assert fleet.command("fleet", "cancel", session_id)["was_running"] is False
    assert fleet.jobs(session_id) == []
    assert fleet.state(session_id) is SessionState.PAUSED
    assert fleet.command("fleet", "cancel", session_id)["error"]["type"] == "NotSubmitted"


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_process_that_is_killed_while_it_has_a_session_counts_against_the_session(
    fleet: Fleet,
) -> None:
    """The process says that it has claimed it; the worker stays well, and takes it up again."""
    worker = fleet.worker("--port", "0")
    session_id = fleet.submit(workflow(WAITING))
    fleet.wait_until_begun(session_id)
    (child,) = worker.children()
    fleet.file(session_id, "begun").unlink()
    child.kill()
    assert worker.wait_for("fleet.child.ended")["claimed"] is True
    fleet.wait_until_begun(session_id)
    (job,) = fleet.command("fleet", "jobs")["jobs"]
    assert (job["attempts"], "SIGKILL" in job["reason"]) == (1, True)
    assert worker.events("fleet.worker.unwell") == []
    fleet.go(session_id)
    fleet.wait_for(session_id, SessionState.COMPLETED)
