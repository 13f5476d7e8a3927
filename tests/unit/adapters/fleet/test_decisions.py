"""What becomes of a job, of how its look ended."""

from __future__ import annotations

import itertools

import pytest

from agentforge_sessions.fleet.workers.decisions import (
    Decision,
    Done,
    GiveUp,
    LookAgain,
    counts_as_failure,
    decide,
    decide_after_crash,
)
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.fleet.workers.settings import Backoff, FleetSettings
from agentforge_sessions.workflows.workflow import RunRetry

SETTINGS = FleetSettings(busy_s=7.0, crashes=3, crash=Backoff(wait_s=2.0, at_most_s=3.0))
RETRY = RunRetry(attempts=2, wait_s=10.0, factor=3, at_most_s=25.0)


def never() -> float:
    return 0.0


def decided(ending: Ending, failures: int = 0, retry: RunRetry | None = RETRY) -> Decision:
    look = Look(ending=ending, reason="why", retry=retry)
    return decide(look, failures, SETTINGS, never)


@pytest.mark.parametrize("ending", [Ending.COMPLETED, Ending.PAUSED, Ending.FENCED, Ending.ABSENT])
def test_what_others_go_on_with_needs_no_other_job(ending: Ending) -> None:
    assert decided(ending) == Done()


def test_what_sleeps_is_looked_at_again_when_it_wakes() -> None:
    look = Look(ending=Ending.PAUSED, cause="time", after_s=28_800.0)
    assert decide(look, 0, SETTINGS, never) == LookAgain(28_800.0)


def test_what_was_stopped_is_looked_at_again_at_once() -> None:
    assert decided(Ending.STOPPED) == LookAgain(0.0)


def test_what_is_run_outside_the_fleet_is_looked_at_later_and_counts_for_nothing() -> None:
    assert decided(Ending.BUSY) == LookAgain(7.0)
    assert not counts_as_failure(Look(ending=Ending.BUSY))


def test_an_error_that_will_not_pass_fails_the_job() -> None:
    assert decided(Ending.FAILED) == GiveUp("why", pause=False)


def test_waits_grow_as_the_workflow_says_up_to_its_limit_and_then_it_stays_paused() -> None:
    assert decided(Ending.MAY_PASS, 1) == LookAgain(10.0)
    assert decided(Ending.MAY_PASS, 2) == LookAgain(25.0)
    assert decided(Ending.MAY_PASS, 3) == Done()


def test_a_workflow_that_says_nothing_is_attempted_again_as_usual() -> None:
    usual = RunRetry()
    assert decided(Ending.MAY_PASS, 1, None) == LookAgain(usual.wait_s)
    assert decided(Ending.MAY_PASS, usual.attempts + 1, None) == Done()


def test_a_session_whose_store_was_away_for_long_is_never_given_up() -> None:
    assert decided(Ending.UNAVAILABLE, 1) == LookAgain(10.0)
    assert decided(Ending.UNAVAILABLE, 1000) == LookAgain(25.0)


def test_of_all_endings_those_that_may_pass_are_counted() -> None:
    counted = {one for one in Ending if counts_as_failure(Look(ending=one))}
    assert counted == {Ending.MAY_PASS, Ending.UNAVAILABLE}


def test_a_session_that_ends_its_process_each_time_is_given_up() -> None:
    after = [decide_after_crash("ended", count, SETTINGS, never) for count in (1, 2, 3)]
    assert after[:2] == [LookAgain(2.0), LookAgain(3.0)]
    assert after[2] == GiveUp(
        "the process that ran it ended, 3 times in a row in this phase", pause=True
    )


def test_waits_are_shorter_by_chance_and_by_a_fifth_at_the_most() -> None:
    waits = Backoff(wait_s=10.0, factor=2.0, at_most_s=15.0)
    assert [waits.wait(count, never) for count in (1, 2, 3)] == [10.0, 15.0, 15.0]
    chances = itertools.cycle([0.0, 0.5, 1.0])
    assert [waits.wait(1, lambda: next(chances)) for _ in range(3)] == [10.0, 9.0, 8.0]
    assert waits.wait(100_000, never) == 15.0


@pytest.mark.parametrize(
    "given",
    [
        {"concurrency": 0},
        {"heartbeat_s": 0.0},
        {"heartbeat_s": 6.0},
        {"queues": ["agentforge-maint"]},
        {"queues": [""]},
        {"queues": ["x" * 129]},
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(given)).removesuffix("s").removesuffix("_")[:5]):
        FleetSettings(**given)  # type: ignore[arg-type]
