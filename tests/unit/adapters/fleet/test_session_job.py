"""One job: what is asked of whom once its look has ended, or was ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.job_context import AbortReason

from agentforge_sessions.adapters.fleet.children import ChildEnded
from agentforge_sessions.adapters.fleet.messages import Ending, Look
from agentforge_sessions.adapters.fleet.metrics import FleetMetrics
from agentforge_sessions.adapters.fleet.session_job import JobFailed, SessionJobs
from agentforge_sessions.adapters.fleet.settings import FleetSettings

S = "session_20260301_093000_000000"
SETTINGS = FleetSettings(crashes=2)


class Processes:
    """Processes whose looks end as they are told, or wait until they are cancelled."""

    def __init__(self, look: Look | BaseException | None) -> None:
        self.look = look
        self.paused: list[str] = []
        self.begun = asyncio.Event()

    async def run(self, session_id: str, job_id: int) -> Look:
        self.begun.set()
        if self.look is None:
            await asyncio.Event().wait()
        if isinstance(self.look, BaseException):
            raise self.look
        assert self.look is not None
        return self.look

    async def pause(self, session_id: str, reason: str) -> bool:
        self.paused.append(reason)
        return True


class Looks:
    """What further looks were asked for."""

    def __init__(self, failures: int = 1, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error
        self.woken: list[float] = []
        self.counted: list[str] = []

    async def wake(self, session_id: str, after_s: float = 0.0) -> int | None:
        if self.error is not None:
            raise self.error
        self.woken.append(after_s)
        return 2

    async def count_failure(self, session_id: str, reason: str) -> int:
        self.counted.append(reason)
        return self.failures


class Context:
    """As much of a job's context as is looked at."""

    def __init__(self, reason: AbortReason | None = None) -> None:
        self.job = type("Job", (), {"id": 1})()
        self.reason = reason

    def abort_reason(self) -> AbortReason | None:
        return self.reason


def jobs(processes: Processes, looks: Looks, **more: Any) -> SessionJobs:
    given: dict[str, Any] = {"random": lambda: 0.0, "monotonic": lambda: 0.0, **more}
    return SessionJobs(processes, looks, SETTINGS, given.pop("metrics", FleetMetrics()), **given)


def run(processes: Processes, looks: Looks, **more: Any) -> None:
    asyncio.run(jobs(processes, looks, **more).run(Context(), S))  # type: ignore[arg-type]


def cancelled(reason: AbortReason, looks: Looks) -> type[BaseException]:
    """Return what a job raises that is cancelled while it runs."""

    async def scenario() -> type[BaseException]:
        processes = Processes(None)
        context: Any = Context(reason)
        task = asyncio.ensure_future(jobs(processes, looks).run(context, S))
        await processes.begun.wait()
        task.cancel()
        try:
            await task
        except BaseException as error:
            return type(error)
        raise AssertionError("it ended well")

    return asyncio.run(scenario())


def test_a_session_that_is_done_asks_for_no_other_look() -> None:
    looks = Looks()
    run(Processes(Look(ending=Ending.COMPLETED)), looks)
    assert (looks.woken, looks.counted) == ([], [])


def test_a_stop_that_may_pass_is_counted_and_looked_at_later() -> None:
    looks = Looks(failures=2)
    run(Processes(Look(ending=Ending.MAY_PASS, reason="no agent")), looks)
    assert (looks.woken, looks.counted) == ([20.0], ["no agent"])


def test_a_refused_save_ends_the_job_quietly() -> None:
    metrics, looks = FleetMetrics(), Looks()
    run(Processes(Look(ending=Ending.FENCED)), looks, metrics=metrics)
    assert looks.woken == []
    assert metrics.registry.get_sample_value("agentforge_conflicts_total") == 1.0


def test_an_error_that_will_not_pass_fails_the_job_and_says_why() -> None:
    processes, looks = Processes(Look(ending=Ending.FAILED, reason="no workflow")), Looks()
    with pytest.raises(JobFailed, match="no workflow"):
        run(processes, looks)
    assert (looks.woken, processes.paused) == ([], [])


def test_a_process_that_ended_is_counted_and_its_session_looked_at_again() -> None:
    looks = Looks(failures=1)
    run(Processes(ChildEnded("was ended by SIGKILL")), looks)
    assert (looks.woken, looks.counted) == ([0.5], ["was ended by SIGKILL"])


def test_a_session_that_ends_its_process_each_time_is_paused() -> None:
    processes, looks = Processes(ChildEnded("ended with exit code 1")), Looks(failures=2)
    with pytest.raises(JobFailed):
        run(processes, looks)
    assert looks.woken == []
    assert "2 times in a row" in processes.paused[0]


def test_a_worker_that_ends_hands_its_session_back() -> None:
    looks = Looks()
    assert cancelled(AbortReason.SHUTDOWN, looks) is asyncio.CancelledError
    assert looks.woken == [0.0]


def test_a_job_that_a_person_cancelled_is_not_enqueued_again() -> None:
    looks = Looks()
    assert cancelled(AbortReason.USER_REQUEST, looks) is JobAborted
    assert looks.woken == []


def test_a_worker_that_ends_while_the_store_is_away_ends_all_the_same() -> None:
    looks = Looks(error=RuntimeError("no connection"))
    assert cancelled(AbortReason.SHUTDOWN, looks) is asyncio.CancelledError


@pytest.mark.parametrize("look", [ChildEnded("was killed"), Look(ending=Ending.STOPPED)])
def test_what_ends_with_the_worker_says_nothing_of_its_session(look: Any) -> None:
    looks = Looks()
    with pytest.raises(JobAborted):
        run(Processes(look), looks, at_once=lambda: True)
    assert (looks.woken, looks.counted) == ([0.0], [])


def test_what_jobs_did_is_measured() -> None:
    metrics = FleetMetrics()
    times = iter([10.0, 12.5])
    look = Look(
        ending=Ending.PAUSED, cause="budget", tokens=70, phases=(("red", 1.5), ("green", 2.0))
    )
    run(Processes(look), Looks(), metrics=metrics, monotonic=lambda: next(times))
    value: Callable[..., float | None] = metrics.registry.get_sample_value
    assert value("agentforge_jobs_total", {"outcome": "paused"}) == 1.0
    assert value("agentforge_job_seconds_sum") == 2.5
    assert value("agentforge_phase_seconds_sum") == 3.5
    assert value("agentforge_tokens_spent_total") == 70.0
    assert value("agentforge_budget_stops_total") == 1.0
    assert value("agentforge_jobs_running") == 0.0


def test_what_must_not_be_lost_is_written_again_where_a_connection_was() -> None:
    looks = Looks()
    errors = [ConnectorException("lost"), ConnectorException("lost")]
    waited: list[float] = []

    async def wake(session_id: str, after_s: float = 0.0) -> int | None:
        if errors:
            raise errors.pop()
        return await Looks.wake(looks, session_id, after_s)

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    looks.wake = wake  # type: ignore[method-assign]
    run(Processes(Look(ending=Ending.MAY_PASS)), looks, sleep=sleep)
    assert (looks.woken, waited) == ([10.0], [0.5, 1.0])
