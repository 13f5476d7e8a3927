"""A worker whose processes end, whose store is away at its start, or that is not allowed a job."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreNotMigrated, StoreUnavailable
from agentforge_sessions.fleet.postgres.fleet_view import FleetView, JobView
from agentforge_sessions.fleet.workers.metrics import HealthServer
from agentforge_sessions.fleet.workers.settings import Backoff
from tests.contract.fleet.test_fleet_worker import SETTINGS, Ground, last_heartbeats, until

SICK = evolve(SETTINGS, crash=Backoff(wait_s=0.2, at_most_s=0.2), poll_s=0.1)


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    return Ground(database, tmp_path)


def started(ground: Ground) -> int:
    """Return how many processes have been started."""
    path = ground.place / "started"
    return len(path.read_text().split()) if path.exists() else 0


def only_job(ground: Ground) -> JobView:
    (job,), _ = FleetView(ground.database).jobs()
    return job


def test_a_sick_machine_gives_no_session_up_says_so_and_goes_on_once_it_is_well(
    ground: Ground,
) -> None:
    async def scenario() -> None:
        (ground.place / "sick").touch()
        session_id = ground.submit()
        worker = ground.worker(SICK)
        async with ground.working(worker):
            # More often than a session's own crashes would be borne.
            await until(lambda: started(ground) >= 3 * SICK.crashes)
            await until(lambda: any(one.problem for one in FleetView(ground.database).workers()))
            assert "ended with exit code 4" in str(worker.problem)
            job = only_job(ground)
            assert (job.session_id, job.attempts, job.session_state) == (session_id, 0, "active")
            assert "ended with exit code 4" in str(job.reason)
            assert not (ground.place / f"paused-{session_id}").exists()
            (ground.place / "sick").unlink()
            await until(lambda: ground.begun(session_id))
            ground.end(session_id)
            await until(lambda: ground.jobs(session_id)[-1] == "succeeded")
            await until(lambda: worker.problem is None)
            await until(
                lambda: [one.problem for one in FleetView(ground.database).workers()] == [None]
            )

    asyncio.run(scenario())


def test_a_sick_worker_takes_one_job_and_leaves_the_others_to_those_that_are_well(
    ground: Ground,
) -> None:
    async def scenario() -> None:
        (ground.place / "sick").touch()
        ids = [ground.submit() for _ in range(4)]
        long = Backoff(wait_s=3600.0, at_most_s=3600.0)
        worker = ground.worker(evolve(SETTINGS, crash=long, poll_s=0.1))
        async with ground.working(worker):
            await until(lambda: worker.problem is not None and "in a row" in worker.problem)
            later = ground.submit()
            for _ in range(3):  # it has polled meanwhile, and lives
                heard = last_heartbeats(ground.database)
                await until(lambda: last_heartbeats(ground.database) > heard)  # noqa: B023
        assert started(ground) == 1
        taken = [one for one in (*ids, later) if ground.jobs(one) != ["todo"]]
        assert len(taken) == 1

    asyncio.run(scenario())


def test_a_session_whose_process_ends_before_its_claim_stays_the_fleets(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        async with ground.working(ground.worker(SICK)):
            for count in range(1, 3 * SICK.crashes):
                await until(lambda: len(ground.begun(session_id)) == count)  # noqa: B023
                ground.write(session_id, "die-unclaimed")
            await until(lambda: len(ground.begun(session_id)) == 3 * SICK.crashes)
            ground.end(session_id)
            await until(lambda: ground.jobs(session_id)[-1] == "succeeded")
        assert not (ground.place / f"paused-{session_id}").exists()

    asyncio.run(scenario())


def test_health_says_that_the_processes_of_a_worker_end(ground: Ground) -> None:
    async def scenario() -> None:
        (ground.place / "sick").touch()
        ground.submit()
        worker = ground.worker(evolve(SETTINGS, crash=Backoff(wait_s=3600.0, at_most_s=3600.0)))
        server = HealthServer(lambda: worker.problem, worker.measured)
        async with server.serving("127.0.0.1", 0) as port, ground.working(worker):
            await until(lambda: worker.problem is not None and "in a row" in worker.problem)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = (await reader.read()).decode()
            writer.close()
        assert answer.startswith("HTTP/1.1 503 ")
        assert "end before they have a session (did not begin" not in answer
        assert "takes none until one lives" in answer

    asyncio.run(scenario())


def test_what_a_worker_is_not_allowed_goes_to_one_that_is_and_says_why(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        refusal = {"reason": "this worker does not run claude", "needs": "claude"}
        ground.end(session_id, "not_allowed", **refusal)
        async with ground.working(ground.worker()):
            await until(lambda: ground.jobs(session_id) == ["succeeded", "todo"])
            job = only_job(ground)
            assert (job.queue, job.state) == ("default@claude", "waiting")
            assert job.reason == "this worker does not run claude"
            other = ground.submit()  # it is not held up, and does not take the first again
            ground.end(other)
            await until(lambda: ground.jobs(other) == ["succeeded"])
            assert len(ground.begun(session_id)) == 1
            (ground.place / f"end-{session_id}").unlink()
            async with ground.working(ground.worker(evolve(SETTINGS, allowed=("claude",)))):
                await until(lambda: len(ground.begun(session_id)) == 2)
                ground.end(session_id)
                await until(lambda: ground.jobs(session_id) == ["succeeded", "succeeded"])

    asyncio.run(scenario())


def test_what_those_refuse_that_should_be_allowed_it_is_put_off(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        ground.end(session_id, "not_allowed", reason="not that model", needs="claude")
        async with ground.working(ground.worker(evolve(SETTINGS, allowed=("claude",)))):
            await until(lambda: ground.jobs(session_id) == ["succeeded", "succeeded", "todo"])
            assert only_job(ground).state == "scheduled"

    asyncio.run(scenario())


def test_a_worker_that_starts_while_the_store_is_away_waits_for_it(ground: Ground) -> None:
    async def scenario() -> None:
        tried: list[int] = []

        def check() -> None:
            tried.append(1)
            if len(tried) < 3:
                raise StoreUnavailable(store="it", reason="no such socket")

        session_id = ground.submit()
        worker = ground.worker(check=check)
        async with ground.working(worker):
            await until(lambda: ground.begun(session_id))
        assert len(tried) >= 3

    asyncio.run(scenario())


def test_a_worker_whose_store_it_cant_work_with_ends_at_once(ground: Ground) -> None:
    async def scenario() -> None:
        def check() -> None:
            raise StoreNotMigrated(store="it", found=1, needed=2)

        with pytest.raises(StoreNotMigrated):
            await ground.worker(check=check).run()

    asyncio.run(scenario())
