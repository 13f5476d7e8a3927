"""A worker whose session processes end before they have a session takes none for a while."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from agentforge_sessions.fleet.workers.children import ChildEnded, Wellness
from agentforge_sessions.fleet.workers.settings import Backoff, FleetSettings

SETTINGS = evolve(FleetSettings(), crash=Backoff(wait_s=1.0, factor=2.0, at_most_s=4.0))


class Machine:
    """A clock, and processes that can be started or not."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sick = False
        self.started = 0
        self.wellness = Wellness(
            SETTINGS, self.start, random=lambda: 0.0, monotonic=lambda: self.now
        )

    async def start(self) -> None:
        self.started += 1
        if self.sick:
            raise ChildEnded("could not be started: no memory")

    def may_take(self) -> bool:
        return asyncio.run(self.wellness.may_take())


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_well_worker_takes_sessions_and_tries_no_process(machine: Machine) -> None:
    assert machine.may_take()
    assert (machine.started, machine.wellness.problem) == (0, None)


def test_after_an_end_before_the_session_none_is_taken_for_the_wait(machine: Machine) -> None:
    assert machine.wellness.ended("was ended by SIGKILL") == 1.0
    machine.now = 0.9
    assert not machine.may_take()
    assert machine.started == 0
    assert "was ended by SIGKILL, 1 in a row" in str(machine.wellness.problem)
    machine.now = 1.0
    assert machine.may_take()
    assert (machine.started, machine.wellness.problem) == (1, None)


def test_the_wait_grows_up_to_its_limit_while_no_process_has_a_session(machine: Machine) -> None:
    machine.sick = True
    assert machine.wellness.ended("once") == 1.0
    for waited in (1.0, 2.0, 4.0, 4.0):
        machine.now += waited
        assert not machine.may_take()
        machine.now += 0.5
        assert not machine.may_take()  # within the wait: nothing is tried
        machine.now -= 0.5
    assert machine.started == 4
    assert "could not be started: no memory, 5 in a row" in str(machine.wellness.problem)


def test_a_process_that_lives_without_a_session_does_not_shorten_the_next_wait(
    machine: Machine,
) -> None:
    machine.wellness.ended("once")
    machine.now = 1.0
    assert machine.may_take()
    assert machine.wellness.ended("again") == 2.0
    machine.wellness.lived()
    assert machine.wellness.problem is None
    assert machine.wellness.ended("later") == 1.0


def test_processes_that_end_at_once_are_one_failure(machine: Machine) -> None:
    assert [machine.wellness.ended("each") for _ in range(4)] == [1.0] * 4
