"""One call in a thread: awaited, and ended with the task that awaits it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.cancellation import cancellable_sleep, is_cancelled
from agentforge_sessions.entrypoints.aio.thread_call import call_in_thread
from tests.support.promptness import wait_until

pytestmark = pytest.mark.anyio


class Endless:
    """Work that ends only when it is cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        cancellable_sleep(3600)


class Saving:
    """Work that nothing cuts off: it ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.done = False

    def __call__(self) -> str:
        self.begun.set()
        assert self.released.wait(60)
        self.done = True
        return "saved"


async def until(holds: Callable[[], object]) -> None:
    """Let the loop go on until something holds; the test's own limit ends what never does."""
    while not holds():
        await anyio.sleep(0.001)


async def test_call_returns_what_the_work_returns() -> None:
    here = threading.get_ident()
    found = await call_in_thread(threading.get_ident, name="test")
    assert found != here


async def test_call_raises_what_the_work_raises() -> None:
    def work() -> None:
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        await call_in_thread(work, name="test")


async def test_work_sees_the_variables_of_the_task() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("of the task")
    assert await call_in_thread(variable.get, name="test") == "of the task"


async def test_loop_goes_on_meanwhile() -> None:
    work = Saving()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call_in_thread(work, name="test"))
        await until(work.begun.is_set)  # in the loop, while the work stands still
        work.released.set()
    assert work.done


async def test_cancelled_task_begins_nothing() -> None:
    calls: list[int] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await call_in_thread(lambda: calls.append(1), name="test")
    assert calls == []


async def test_cancellation_is_raised_once_the_thread_has_ended() -> None:
    work = Endless()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call_in_thread(work, name="test"))
            await until(work.begun.is_set)
            scope.cancel()
    assert scope.cancelled_caught
    assert work.thread is not None
    assert not work.thread.is_alive()


async def test_what_is_being_saved_is_saved_before_the_cancellation_is_raised() -> None:
    work = Saving()
    ended: list[str] = []

    async def save() -> None:
        try:
            await call_in_thread(work, name="test")
        finally:
            ended.append("done" if work.done else "left")

    async with anyio.create_task_group() as group:
        group.start_soon(save)
        await until(work.begun.is_set)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0)
            assert ended == []
            work.released.set()
    assert ended == ["done"]


async def test_failure_of_a_cancelled_call_is_not_lost() -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        wait_until(is_cancelled)
        raise OSError("the disk is full")

    raised: list[BaseException] = []

    async def call() -> None:
        try:
            await call_in_thread(work, name="test")
        except OSError as error:
            raised.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await until(begun.is_set)
        group.cancel_scope.cancel()
    assert [str(one) for one in raised] == ["the disk is full"]


async def test_cancelled_call_that_does_not_end_is_logged() -> None:
    work = Saving()
    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call_in_thread(work, name="save", slow_s=0.0))
            await until(work.begun.is_set)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await until(lambda: logs)
                work.released.set()
    assert [(one["event"], one["call"], one["log_level"]) for one in logs] == [
        ("async.cancellation.slow", "save", "warning")
    ]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_native_cancellations_wait_for_the_thread_too() -> None:
    work = Saving()
    task = asyncio.create_task(call_in_thread(work, name="test"))
    await until(work.begun.is_set)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    work.released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_native_timeout_ends_a_call() -> None:
    work = Endless()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await call_in_thread(work, name="test")
    assert work.thread is None or not work.thread.is_alive()
