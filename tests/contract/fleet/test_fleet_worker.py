"""A worker on a real queue, with session processes that run nothing: its whole life."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.fleet_view import FleetView
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.fleet.workers.children import Children
from agentforge_sessions.fleet.workers.metrics import HealthServer
from agentforge_sessions.fleet.workers.queue import FleetStopped
from agentforge_sessions.fleet.workers.settings import Backoff, FleetSettings
from agentforge_sessions.fleet.workers.worker import FleetWorker
from agentforge_sessions.harness import SessionState
from tests.support import fake_child
from tests.support.fleet import QUICK, Fleet, workflow
from tests.support.postgres import PostgresServer
from tests.support.promptness import PATIENCE_S

SETTINGS = FleetSettings(
    heartbeat_s=0.2,
    limit_s=60.0,  # a busy machine holds up a heartbeat
    poll_s=0.5,
    grace_s=0.0,
    reconnect=Backoff(wait_s=0.05, at_most_s=0.1),
    crash=Backoff(wait_s=0.0),
    crashes=2,
    busy_s=0.05,
    sweep_at=None,  # these processes change no session: each would be taken up again
    prune_at=None,
)


class Ground:
    """A fleet's store, and how the looks of its workers end."""

    def __init__(self, database: Database, tmp_path: Path) -> None:
        self.fleet = Fleet(database, tmp_path)
        self.database = database
        self.place = tmp_path
        self.children: list[Children] = []

    def submit(self, **given: Any) -> str:
        return self.fleet.submit(workflow(QUICK), **given)

    def worker(self, settings: FleetSettings = SETTINGS, **more: Any) -> FleetWorker:
        children = Children(
            {"store": "none"},
            stop_s=settings.stop_s,
            on_log=lambda _event: None,
            program=(sys.executable, fake_child.__file__, str(self.place)),
        )
        self.children.append(children)
        return FleetWorker(self.database.url, settings, children, **more)

    @asynccontextmanager
    async def working(self, worker: FleetWorker) -> AsyncIterator[asyncio.Task[None]]:
        """Have a worker work while the context lasts, and then stop."""
        task = asyncio.create_task(worker.run())
        try:
            yield task
        finally:
            for _ in range(2):
                if not task.done():
                    worker.stop()
                    await asyncio.sleep(0)
            await asyncio.gather(task, return_exceptions=True)

    def begun(self, session_id: str) -> list[int]:
        """Return the processes that began to look at a session, in turn."""
        path = self.place / f"begun-{session_id}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def end(self, session_id: str, ending: str = "completed", **more: Any) -> None:
        """Have a look at a session end; where it is complete, it is so in the store."""
        if ending == "completed":
            self.database.one(
                "update agentforge.sessions set state = %s where id = %s returning id",
                (ending, session_id),
            )
        self.write(session_id, json.dumps({"ending": ending, **more}))

    def die(self, session_id: str) -> None:
        """Have the process that looks at a session end by itself."""
        self.write(session_id, "die")

    def write(self, session_id: str, text: str) -> None:
        """Say how a look at a session ends, as `fake_child` reads it."""
        part = self.place / "part"
        part.write_text(text)
        part.rename(self.place / f"end-{session_id}")

    def jobs(self, session_id: str) -> list[str]:
        return self.fleet.jobs(session_id)


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    return Ground(database, tmp_path)


def last_heartbeats(database: Database) -> Any:
    """Return when the worker that was silent for longest was heard of."""
    row = database.one("select min(last_heartbeat) from agentforge.procrastinate_workers")
    return None if row is None else row[0]


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, or for a minute."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def test_a_job_is_done_and_its_process_kept_for_the_next(ground: Ground) -> None:
    async def scenario() -> None:
        async with ground.working(ground.worker()):
            for session_id in (ground.submit(), ground.submit()):
                ground.end(session_id)
                await until(lambda: ground.jobs(session_id) == ["succeeded"])  # noqa: B023
                pids.update(ground.begun(session_id))

    pids: set[int] = set()
    asyncio.run(scenario())
    assert len(pids) == 1


def test_as_many_run_at_once_as_were_asked_for(ground: Ground) -> None:
    async def scenario() -> None:
        ids = [ground.submit() for _ in range(3)]
        async with ground.working(ground.worker(evolve(SETTINGS, concurrency=2))):
            await until(lambda: sum(bool(ground.begun(one)) for one in ids) == 2)
            assert sorted(ground.jobs(one)[0] for one in ids) == ["doing", "doing", "todo"]
            for one in ids:
                ground.end(one)
            await until(lambda: all(ground.jobs(one) == ["succeeded"] for one in ids))

    asyncio.run(scenario())


def test_only_jobs_of_its_queues_are_taken(ground: Ground) -> None:
    async def scenario() -> None:
        other, mine = ground.submit(), ground.submit(queue="mine")
        ground.end(mine)
        async with ground.working(ground.worker(evolve(SETTINGS, queues=["mine"]))):
            await until(lambda: ground.jobs(mine) == ["succeeded"])
        assert ground.jobs(other) == ["todo"]

    asyncio.run(scenario())


def test_a_session_is_with_one_worker_at_a_time(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        async with ground.working(ground.worker()), ground.working(ground.worker()):
            await until(lambda: ground.begun(session_id))
            ground.database.one("select agentforge.wake(%s)", (session_id,))
            await until(lambda: len(FleetView(ground.database).workers()) == 2)
            assert ground.jobs(session_id) == ["doing", "todo"]
            ground.end(session_id)
            await until(lambda: ground.jobs(session_id) == ["succeeded", "succeeded"])

    asyncio.run(scenario())


def test_a_worker_that_is_stopped_hands_back_and_stops_its_processes(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        worker = ground.worker()
        async with ground.working(worker) as task:
            await until(lambda: ground.begun(session_id))
            worker.stop()
            await task
        assert ground.jobs(session_id) == ["aborted", "todo"]
        assert ground.children[0].pids == ()
        assert FleetView(ground.database).workers() == []

    asyncio.run(scenario())


def test_what_runs_when_it_is_stopped_may_end_within_the_grace(ground: Ground) -> None:
    """It is heard of for as long, and so not taken for dead."""

    async def scenario() -> None:
        first = ground.submit()
        worker = ground.worker(evolve(SETTINGS, grace_s=3600.0))
        async with ground.working(worker) as task:
            await until(lambda: ground.begun(first))
            worker.stop()
            for _ in range(2):
                heard = last_heartbeats(ground.database)
                await until(lambda: last_heartbeats(ground.database) > heard)  # noqa: B023
            assert not task.done()
            later = ground.submit()
            ground.end(first)
            await task
            assert ground.jobs(later) == ["todo"]
        assert ground.jobs(first) == ["succeeded"]

    asyncio.run(scenario())


def test_the_second_stop_is_at_once(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        worker = ground.worker(evolve(SETTINGS, grace_s=3600.0, stop_s=3600.0))
        async with ground.working(worker) as task:
            await until(lambda: ground.begun(session_id))
            worker.stop()
            worker.stop()
            await task
        assert ground.jobs(session_id) == ["aborted", "todo"]

    asyncio.run(scenario())


def test_what_is_cancelled_is_stopped_and_not_enqueued_again(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        async with ground.working(ground.worker()):
            await until(lambda: ground.begun(session_id))
            ground.database.one("select agentforge.withdraw(%s)", (session_id,))
            await until(lambda: ground.jobs(session_id) == ["aborted"])
            await until(lambda: ground.children[0].pids == ())
            other = ground.submit()
            ground.end(other)
            await until(lambda: ground.jobs(other) == ["succeeded"])

    asyncio.run(scenario())


def test_a_silent_workers_session_goes_on_with_another(ground: Ground) -> None:
    """A worker whose heartbeats stop, though it lives: it notices, and begins again."""

    async def scenario() -> None:
        session_id = ground.submit()
        late = ground.worker()
        async with ground.working(late):
            await until(lambda: ground.begun(session_id))
            with ground.database.connection() as connection:
                connection.execute("delete from agentforge.procrastinate_workers")
            await until(lambda: len(ground.begun(session_id)) == 2)
            await until(lambda: late.metrics.registry.get_sample_value(RESTARTS) == 1.0)
            ground.end(session_id)
            await until(lambda: ground.jobs(session_id)[-1] == "succeeded")
        assert ground.jobs(session_id)[0] == "aborted"

    asyncio.run(scenario())


RESTARTS = "agentforge_worker_restarts_total"


def test_a_process_that_ends_by_itself_is_replaced_and_bounded(ground: Ground) -> None:
    """A session that ends its process each time stops no worker."""

    async def scenario() -> None:
        session_id = ground.submit()
        async with ground.working(ground.worker()):
            for count in (1, 2):
                await until(lambda: len(ground.begun(session_id)) == count)  # noqa: B023
                ground.die(session_id)
            await until(lambda: ground.jobs(session_id)[:2] == ["succeeded", "failed"])
            reason = (ground.place / f"paused-{session_id}").read_text()
            assert "ended with exit code 3, 2 times in a row" in reason

            odd = ground.submit()
            ground.end(odd, "odd")
            await until(lambda: ground.jobs(odd)[:2] == ["succeeded", "failed"])
            other = ground.submit()
            ground.end(other)
            await until(lambda: ground.jobs(other) == ["succeeded"])

    asyncio.run(scenario())


def test_a_stop_that_may_pass_is_looked_at_again_after_the_workflows_wait(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        retry = {"attempts": 1, "wait_s": 0.1, "factor": 1, "at_most_s": 0.1}
        ground.end(session_id, "may_pass", reason="no agent", retry=retry)
        async with ground.working(ground.worker()):
            await until(lambda: len(ground.begun(session_id)) == 2)
            await until(lambda: ground.jobs(session_id)[:2] == ["succeeded", "succeeded"])

    asyncio.run(scenario())


def test_a_worker_whose_connections_are_ended_goes_on(
    ground: Ground, server: PostgresServer
) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        async with ground.working(ground.worker()):
            await until(lambda: ground.begun(session_id))
            ground.database.close()  # of the test's own
            server.end_connections(ground.database.url)
            with Database(ground.database.url) as database:
                after = Ground(database, ground.place)
                again = after.submit()
                after.end(session_id)
                after.end(again)
                await until(lambda: after.jobs(again) == ["succeeded"])
                await until(lambda: after.jobs(session_id)[-1] == "succeeded")

    asyncio.run(scenario())


def test_a_worker_whose_store_is_away_begins_again_until_it_gives_up(
    ground: Ground, tmp_path: Path
) -> None:
    async def scenario() -> None:
        away = f"postgresql://nobody@/none?host={tmp_path}"
        children = Children({}, stop_s=1.0, on_log=lambda _event: None)
        worker = FleetWorker(away, evolve(SETTINGS, give_up_s=0.3), children)
        with pytest.raises(FleetStopped, match="lost the store"):
            await worker.run()
        assert worker.problem is not None

    asyncio.run(scenario())


def test_a_worker_that_is_stopped_while_the_store_is_away_ends_well(
    ground: Ground, tmp_path: Path
) -> None:
    async def scenario() -> None:
        away = f"postgresql://nobody@/none?host={tmp_path}"
        worker = FleetWorker(
            away,
            evolve(SETTINGS, reconnect=Backoff(wait_s=3600.0, at_most_s=3600.0)),
            Children({}, stop_s=1.0, on_log=lambda _event: None),
        )
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.metrics.registry.get_sample_value(RESTARTS) == 1.0)
        worker.stop()
        await task

    asyncio.run(scenario())


def test_a_session_that_lost_its_job_is_taken_up_all_the_same(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        with ground.database.transaction() as connection:
            connection.execute("set local search_path = agentforge")  # its triggers name no schema
            connection.execute("delete from procrastinate_jobs")
        async with ground.working(ground.worker(evolve(SETTINGS, sweep_at="* * * * * *"))):
            await until(lambda: ground.begun(session_id))

    asyncio.run(scenario())


def test_ended_sessions_are_pruned_once_by_the_fleet(ground: Ground) -> None:
    async def scenario() -> None:
        pruned: list[str] = []

        def prune() -> dict[str, int]:
            pruned.append("once")
            return {"sessions": 1}

        settings = evolve(SETTINGS, prune_at="* * * * * *")
        many = [ground.worker(settings, prune=prune) for _ in range(2)]
        async with ground.working(many[0]), ground.working(many[1]):
            await until(lambda: pruned)

    asyncio.run(scenario())


def test_health_says_why_a_worker_is_not_well(ground: Ground) -> None:
    async def ask(port: int, text: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text.encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    async def scenario() -> None:
        worker = ground.worker()
        server = HealthServer(lambda: worker.problem, worker.measured)
        async with server.serving("127.0.0.1", 0) as port:
            head = "GET /healthz HTTP/1.1\r\n\r\n"
            answer = await ask(port, head)
            assert answer.startswith("HTTP/1.1 503 ")
            assert answer.endswith("\r\n\r\nit has not reached the store yet\n")
            async with ground.working(worker):
                await until(lambda: worker.problem is None)
                assert (await ask(port, head)).startswith("HTTP/1.1 200 ")
                assert "agentforge_jobs_waiting 0.0" in await ask(
                    port, "GET /metrics HTTP/1.1\r\n\r\n"
                )
            assert (await ask(port, "POST /metrics HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 405 ")
            assert (await ask(port, "GET /x HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 404 ")
            assert await ask(port, "x" * 10_000 + "\r\n\r\n") == ""

    asyncio.run(scenario())


def test_the_session_itself_is_not_touched_by_a_worker(ground: Ground) -> None:
    async def scenario() -> None:
        session_id = ground.submit()
        ground.end(session_id, "paused")
        async with ground.working(ground.worker()):
            await until(lambda: ground.jobs(session_id)[0] == "succeeded")
        session = PostgresStore(ground.database, ground.place).load(session_id)
        assert session is not None
        assert (session.state, session.revision) == (SessionState.ACTIVE, 1)

    asyncio.run(scenario())
