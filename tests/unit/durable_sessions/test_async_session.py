"""The asynchronous face: the rules of the synchronous one, in a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions import AsyncSession, session
from agentforge_sessions.entrypoints.durable.opening import SessionOpening
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.steps.errors import (
    BudgetReached,
    SessionLed,
    StepFailed,
    StepTimeout,
    StillWaiting,
)
from agentforge_sessions.harness.steps.program_sessions import send_signal, steps_of
from agentforge_sessions.testing import ManualClock, MemorySessions

Start = Callable[..., SessionOpening]


@pytest.fixture
def sessions(tmp_path: Path) -> MemorySessions:
    return MemorySessions(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def start(sessions: MemorySessions, clock: ManualClock) -> Start:
    def opened(**options: Any) -> SessionOpening:
        given = {"key": "k", "store": sessions, "clock": clock, "sleep": clock.sleep, **options}
        return session("report", **given)

    return opened


def ran(program: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(program())


def test_recorded_steps_are_not_run_again(start: Start) -> None:
    calls: list[str] = []

    async def outline(topic: str) -> str:
        await asyncio.sleep(0)
        calls.append(topic)
        return topic.upper()

    def plain(topic: str) -> str:
        calls.append(topic)
        return topic

    async def program() -> Any:
        async with start() as s:
            one = await s.step("outline", outline, "t")
            two = await s.step("plain", plain, "p")
            await s.finish([one, two])
            return s.result

    assert [ran(program) for _ in range(3)] == [["T", "p"]] * 3
    assert calls == ["t", "p"]


def test_the_place_of_a_step_is_that_of_its_call(start: Start, sessions: MemorySessions) -> None:
    async def program() -> str:
        async with start() as s:

            async def work(number: int) -> int:
                if number == 1:
                    await second.wait()
                second.set()
                return number

            second = asyncio.Event()
            first = s.step("a", work, 1)
            assert await asyncio.gather(s.step("a", work, 2), first) == [2, 1]
            return s.id

    session_id = ran(program)
    found = {(one.path, one.call) for one in steps_of(sessions, session_id)}
    assert found == {("a#1", 0), ("a#2", 1)}


def test_a_coroutine_function_is_cancelled_by_its_timeout(start: Start) -> None:
    ends: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    async def program() -> None:
        async with start() as s:
            with pytest.raises(StepTimeout) as late:
                await s.step("a", slow, timeout=0.001)
            assert late.value.path == "a#1"

    ran(program)
    assert ends == ["ended"]


def test_a_timeout_of_the_function_itself_passes_through(start: Start) -> None:
    async def own() -> None:
        raise TimeoutError("mine")

    async def program() -> None:
        async with start() as s:
            await s.step("a", own, timeout=60)

    with pytest.raises(TimeoutError, match="mine"):
        ran(program)


def test_a_plain_function_that_is_too_slow_goes_on_without_the_caller(
    start: Start, sessions: MemorySessions
) -> None:
    go_on, ended = threading.Event(), threading.Event()

    async def program() -> str:
        async with start(budget=1000) as s:

            def slow() -> str:
                go_on.wait(30)
                s.spend(30)
                ended.set()
                return "late"

            with pytest.raises(StepTimeout):
                await s.step("a", slow, timeout=0.001)
            go_on.set()
            assert await asyncio.to_thread(ended.wait, 30)
            assert s.budget.tokens == 970
            return s.id

    assert steps_of(sessions, ran(program)) == []


def test_a_map_runs_so_many_at_once_and_keeps_the_order(start: Start) -> None:
    at_once: list[int] = []
    most = 0

    async def program() -> list[int]:
        full = asyncio.Event()

        async def work(number: int) -> int:
            nonlocal most
            at_once.append(number)
            most = max(most, len(at_once))
            if most == 3:
                full.set()
            await full.wait()
            at_once.remove(number)
            return number

        async with start() as s:
            return await s.map("m", work, range(8), concurrency=3)

    assert ran(program) == ran(program) == [*range(8)]
    assert most == 3


def test_a_failed_map_records_what_runs_and_starts_no_more(start: Start) -> None:
    calls: list[int] = []

    async def program(concurrency: int) -> list[int]:
        failed = asyncio.Event()

        async def work(number: int) -> int:
            calls.append(number)
            if calls.count(0) == 1 and number == 0:
                failed.set()
                raise ValueError
            if concurrency == 2:
                await failed.wait()
            return number

        async with start(key="one" if concurrency == 1 else "more") as s:
            return await s.map("m", work, range(6), concurrency=concurrency)

    with pytest.raises(ValueError):
        ran(lambda: program(1))
    assert calls == [0]
    calls.clear()
    with pytest.raises(ValueError):
        ran(lambda: program(2))
    assert sorted(calls[:2]) == [0, 1]
    assert ran(lambda: program(3)) == [*range(6)]
    assert calls.count(1) == 1


def test_a_cancelled_program_lets_go_of_its_session(start: Start, sessions: MemorySessions) -> None:
    calls: list[int] = []

    async def program() -> str:
        reached = asyncio.Event()

        async def stuck() -> None:
            calls.append(1)
            reached.set()
            await asyncio.Event().wait()

        found: list[AsyncSession] = []

        async def led() -> None:
            async with start() as s:
                found.append(s)
                await s.step("a", stuck)

        task = asyncio.create_task(led())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sessions.is_led(found[0].id)
        return found[0].id

    assert steps_of(sessions, ran(program)) == []
    assert calls == [1]


class SlowSessions(MemorySessions):
    """A store whose sessions are read once they may be."""

    entered, go_on = threading.Event(), threading.Event()

    def load(self, session_id: str) -> SessionContext | None:
        self.entered.set()
        self.go_on.wait(30)
        return super().load(session_id)


def test_a_program_that_is_cancelled_while_it_opens_its_session_lets_go_of_it(
    start: Start, tmp_path: Path
) -> None:
    sessions = SlowSessions(tmp_path)

    async def program() -> None:
        async def led() -> None:
            async with start(store=sessions):
                raise AssertionError

        task = asyncio.create_task(led())
        await asyncio.to_thread(sessions.entered.wait, 30)
        task.cancel()
        sessions.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    ran(program)
    [session_id] = sessions.list_sessions()
    assert not sessions.is_led(session_id)


def test_a_race_cancels_the_slower_ones(start: Start) -> None:
    ends: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")
        return "slow"

    async def quick() -> str:
        return "quick"

    async def program() -> str:
        async with start() as s:
            return await s.race("r", slow, quick)

    assert ran(program) == ran(program) == "quick"
    assert ends == ["cancelled"]


def test_a_race_that_all_lose_says_why(start: Start) -> None:
    async def fails() -> str:
        raise KeyError

    async def program() -> None:
        async with start() as s:
            await s.race("r", fails, fails)

    with pytest.raises(ExceptionGroup) as lost:
        ran(program)
    assert [type(one) for one in lost.value.exceptions] == [KeyError, KeyError]


def test_steps_within_a_step_have_its_path_in_the_loop_too(
    start: Start, sessions: MemorySessions
) -> None:
    async def program() -> str:
        async with start() as s:

            async def inner() -> str:
                s.spend(5)
                return s.idempotency_key

            async def outer(number: int) -> str:
                return await s.step("inner", inner)

            keys = await s.map("m", outer, [1, 2], concurrency=2)
            assert len({*keys}) == 2
            return s.id

    found = steps_of(sessions, ran(program))
    assert {one.path: one.spent.tokens for one in found} == {
        "m#1/inner#1": 5,
        "m#2/inner#1": 5,
        "m#1": 0,
        "m#2": 0,
    }


def test_waits_end_with_the_patience_of_the_session(
    start: Start, sessions: MemorySessions, clock: ManualClock
) -> None:
    async def program() -> Any:
        async with start(patience_s=5) as s:
            await s.sleep(3)
            try:
                return await s.wait_for("go")
            except StillWaiting:
                return s.id

    session_id = ran(program)
    assert sum(clock.pauses) == pytest.approx(8)
    send_signal(sessions, session_id, "go", [1], by="a test")
    assert ran(program) == [1]


def test_failures_and_budgets_are_as_in_the_synchronous_face(start: Start) -> None:
    async def refuses() -> None:
        raise KeyError("x")

    async def program() -> None:
        async with start(budget=10) as s:
            with pytest.raises(BudgetReached):
                await s.step("a", refuses, spend=11)
            with pytest.raises(StepFailed):
                await s.step("b", refuses, final=(KeyError,))
            with pytest.raises(SessionLed):
                await start().__aenter__()
            async with s.session("part", budget=5) as part:
                await part.phase("p")
                assert await part.version("v", 3) == 3
                await part.finish(1)

    ran(program)


def test_a_decorated_coroutine_function_runs_once(start: Start) -> None:
    calls: list[str] = []

    @start(key=None)
    async def report(s: AsyncSession, topic: str) -> str:
        calls.append(topic)
        return await s.step("a", topic.upper)

    async def program() -> list[str]:
        return [await report("x"), await report("x"), await report("y")]

    assert ran(program) == ["X", "X", "Y"]
    assert calls == ["x", "y"]
