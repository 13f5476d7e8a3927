"""One job: what is asked of whom once its look has ended, or was ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.job_context import AbortReason

from agentforge_sessions.fleet.workers.children import ChildEnded, Wellness
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.fleet.workers.metrics import FleetMetrics
from agentforge_sessions.fleet.workers.session_job import JobFailed, SessionJobs
from agentforge_sessions.fleet.workers.settings import FleetSettings

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

    def __init__(
        self, failures: int = 1, error: Exception | None = None, refusals: int | None = 0
    ) -> None:
        self.failures = failures
        self.refusals = refusals
        self.passed_on: list[tuple[str, str]] = []
        self.noted: list[str] = []
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

    async def pass_on(self, session_id: str, needs: str, reason: str) -> int | None:
        self.passed_on.append((needs, reason))
        return self.refusals

    async def note_reason(self, session_id: str, reason: str) -> None:
        self.noted.append(reason)


class Context:
    """As much of a job's context as is looked at."""

    def __init__(self, reason: AbortReason | None = None) -> None:
        self.job = type("Job", (), {"id": 1})()
        self.reason = reason

    def abort_reason(self) -> AbortReason | None:
        return self.reason


def jobs(processes: Processes, looks: Looks, **more: Any) -> SessionJobs:
    given: dict[str, Any] = {"random": lambda: 0.0, "monotonic": lambda: 0.0, **more}
    metrics = given.pop("metrics", FleetMetrics())
    wellness = given.pop("wellness", None) or well()
    return SessionJobs(processes, looks, SETTINGS, metrics, wellness, **given)


def well() -> Wellness:
    async def start() -> None:
        raise AssertionError("no process is tried")

    return Wellness(SETTINGS, start, random=lambda: 0.0, monotonic=lambda: 0.0)


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
    run(Processes(ChildEnded("was ended by SIGKILL", claimed=True)), looks)
    assert (looks.woken, looks.counted) == ([0.5], ["was ended by SIGKILL"])


def test_a_session_that_ends_its_process_each_time_is_paused() -> None:
    ended = ChildEnded("ended with exit code 1", claimed=True)
    processes, looks = Processes(ended), Looks(failures=2)
    with pytest.raises(JobFailed):
        run(processes, looks)
    assert looks.woken == []
    assert "2 times in a row" in processes.paused[0]


def test_a_process_that_ended_before_its_claim_counts_against_the_worker_alone() -> None:
    """However often: a machine that can start nothing gives no session up."""
    processes, looks, wellness = Processes(ChildEnded("ended with exit code 4")), Looks(9), well()
    for _ in range(20):
        run(processes, looks, wellness=wellness)
    assert (looks.counted, processes.paused) == ([], [])
    assert looks.woken == [0.5] * 20
    assert "ended with exit code 4" in looks.noted[-1]
    assert wellness.problem is not None
    run(Processes(Look(ending=Ending.PAUSED)), looks, wellness=wellness)
    assert wellness.problem is None


def test_what_the_worker_is_not_allowed_is_passed_on_at_once_to_those_that_are() -> None:
    look = Look(ending=Ending.NOT_ALLOWED, reason="no claude here", needs="claude")
    looks = Looks(refusals=0)
    run(Processes(look), looks)
    assert (looks.passed_on, looks.woken, looks.counted) == (
        [("claude", "no claude here")],
        [0.0],
        [],
    )


@pytest.mark.parametrize(("refusals", "woken"), [(1, [10.0]), (3, [40.0]), (99, [600.0])])
def test_what_they_refuse_as_well_is_put_off_ever_longer(refusals: int, woken: list[float]) -> None:
    look = Look(ending=Ending.NOT_ALLOWED, reason="not this model", needs="claude")
    looks = Looks(refusals=refusals)
    run(Processes(look), looks)
    assert looks.woken == woken


def test_what_the_fleet_is_done_with_is_not_passed_on() -> None:
    looks = Looks(refusals=None)
    run(Processes(Look(ending=Ending.NOT_ALLOWED, reason="no", needs="claude")), looks)
    assert looks.woken == []


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
