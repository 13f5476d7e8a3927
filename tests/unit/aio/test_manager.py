"""Sessions led from an event loop: the manager's own rules, in threads, one call at a time."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import anyio
import pytest

from agentforge_sessions.base.cancellation import cancellable_sleep
from agentforge_sessions.entrypoints.aio import AsyncSessionManager
from agentforge_sessions.entrypoints.aio.faces import PREFETCHED, SHORT_CALLS, Prefetching, Turns
from agentforge_sessions.harness import (
    NoActiveSession,
    PhaseResult,
    Question,
    SessionContext,
    SessionManager,
    SessionState,
    SessionStore,
    WriteError,
)
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.support.executors import SUCCEEDED
from tests.support.filesystem import Call, FaultyFileSystem, every_call_from

pytestmark = pytest.mark.anyio


NO_COROUTINES = {"find", "children", "changes", "events"}
"""What gives an asynchronous iterator, or an asynchronous context manager."""


class WaitingExecutor:
    """Runs code that ends when its operation is cancelled, or at once when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.waits = True

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        self.begun.set()
        if self.waits:
            cancellable_sleep(3600)
        return SUCCEEDED


class SlowDisk(FaultyFileSystem):
    """Stands still at the next rename until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__(before=self._stand_still)
        self.slow = False
        self.reached = threading.Event()
        self.released = threading.Event()

    def _stand_still(self, call: Call) -> None:
        if self.slow and call.operation == "rename":
            self.reached.set()
            assert self.released.wait(60)


async def on_a_slow_disk(base: Path) -> tuple[AsyncSessionManager, SlowDisk, SessionContext]:
    disk = SlowDisk()
    manager = AsyncSessionManager(SessionManager(SessionStore(base, fs=disk)))
    session = await manager.create()
    disk.slow = True
    return manager, disk, session


async def until(holds: Callable[[], object]) -> None:
    while not holds():
        await anyio.sleep(0.001)


def stored(manager: AsyncSessionManager) -> dict[str, object]:
    """Say what the disk has of the manager's session, as another worker reads it."""
    session = manager.current_session
    assert session is not None
    found = SessionStore(manager.store.base_path).load(session.session_id)
    assert found is not None
    return {one.name: getattr(found, one.name) for one in fields(found)}


def in_memory(manager: AsyncSessionManager) -> dict[str, object]:
    session = manager.current_session
    assert session is not None
    return {one.name: getattr(session, one.name) for one in fields(session)}


def public(owner: type) -> dict[str, object]:
    return {name: one for name, one in vars(owner).items() if not name.startswith("_")}


def test_every_method_of_the_manager_is_there_with_its_parameters_and_its_words() -> None:
    ours = public(AsyncSessionManager)
    for name, method in public(SessionManager).items():
        if isinstance(method, property):
            assert isinstance(ours[name], property), name
            continue
        face = ours[name]
        assert callable(face), name
        assert callable(method), name
        assert inspect.signature(face) == inspect.signature(method), name
        assert face.__doc__ == method.__doc__, name
        assert inspect.iscoroutinefunction(face) == (name not in NO_COROUTINES), name
    assert set(ours) - set(public(SessionManager)) == {"synchronous"}


async def test_session_is_led_from_its_beginning_to_its_end(base: Path) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create("tdflow", "red", goal="An interval scheduler")
    await manager.record_tokens(100)
    await manager.advance_phase("green")
    assert manager.current_session is session
    assert in_memory(manager) == stored(manager)
    await manager.complete()
    other = AsyncSessionManager(SessionStore(base))
    assert (await other.open(session.session_id)).state is SessionState.COMPLETED
    assert [one.session_id for one in await other.list()] == [session.session_id]


async def test_errors_are_those_of_the_manager(base: Path) -> None:
    with pytest.raises(NoActiveSession):
        await AsyncSessionManager(base).record_tokens(1)


async def test_save_that_stands_still_does_not_hold_up_the_loop(base: Path) -> None:
    manager, disk, _ = await on_a_slow_disk(base)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.record_tokens, 5)
        await until(disk.reached.is_set)
        disk.released.set()  # by the loop, while the save stands still
    assert in_memory(manager) == stored(manager)


async def test_calls_are_made_in_the_order_in_which_they_were_awaited(base: Path) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create()
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(manager.add_history, f"note {number}")
            await anyio.lowlevel.checkpoint()
    notes = [one.action for one in session.history if one.action.startswith("note")]
    assert sorted(notes, key=lambda one: int(one.split()[1])) == notes
    assert len(notes) == 20
    assert in_memory(manager) == stored(manager)


async def test_two_faces_of_one_manager_take_turns(base: Path) -> None:
    disk = SlowDisk()
    manager = SessionManager(SessionStore(base, fs=disk))
    first, second = AsyncSessionManager(manager), AsyncSessionManager(manager)
    await first.create()
    disk.slow = True
    ended: list[int] = []

    async def note() -> None:
        await second.record_tokens(2)
        ended.append(2)

    async with anyio.create_task_group() as group:
        group.start_soon(first.record_tokens, 1)
        await until(disk.reached.is_set)
        group.start_soon(note)
        await anyio.wait_all_tasks_blocked()
        names = [one.name for one in threading.enumerate()]
        ended_before = list(ended)
        disk.released.set()
    assert names.count("agentforge-record_tokens") == 1
    assert (ended_before, ended) == ([], [2])
    assert in_memory(first) == stored(first)


async def test_cancelled_call_that_waits_for_its_turn_does_nothing(base: Path) -> None:
    manager, disk, session = await on_a_slow_disk(base)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.record_tokens, 1)
        await until(disk.reached.is_set)
        with anyio.move_on_after(0.0):
            await manager.record_tokens(1000)
        disk.released.set()
    assert session.token_budget.tokens_used == 1


async def test_save_that_has_begun_is_finished_though_it_is_cancelled(base: Path) -> None:
    manager, disk, session = await on_a_slow_disk(base)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.record_tokens, 7)
        await until(disk.reached.is_set)
        group.cancel_scope.cancel()
        disk.released.set()
    assert session.token_budget.tokens_used == 7
    assert in_memory(manager) == stored(manager)
    await manager.record_tokens(1)  # the manager is free again


async def test_save_that_fails_while_it_is_cancelled_says_so_and_is_taken_back(base: Path) -> None:
    manager, disk, session = await on_a_slow_disk(base)
    failures: list[WriteError] = []

    async def spend() -> None:
        try:
            await manager.record_tokens(7)
        except WriteError as error:
            failures.append(error)

    disk.begin(every_call_from(0, 28, ["rename"]))
    async with anyio.create_task_group() as group:
        group.start_soon(spend)
        await until(disk.reached.is_set)
        group.cancel_scope.cancel()
        disk.released.set()
    assert len(failures) == 1
    assert session.token_budget.tokens_used == 0
    assert in_memory(manager) == stored(manager)


async def test_changes_of_a_block_are_one_save(base: Path) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create("tdflow", "red")
    async with manager.changes():
        await manager.record_tokens(5)
        await manager.advance_phase("green")
        assert session.revision == 1
    assert session.revision == 2
    assert in_memory(manager) == stored(manager)


@pytest.mark.parametrize("reason", ["cancelled", "failed"])
async def test_block_that_does_not_end_well_changes_nothing(base: Path, reason: str) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create("tdflow", "red")
    with anyio.CancelScope() as scope, suppress(LookupError):
        async with manager.changes():
            await manager.record_tokens(5)
            if reason == "failed":
                raise LookupError
            scope.cancel()
            await anyio.sleep(3600)
    assert (session.revision, session.token_budget.tokens_used) == (1, 0)
    assert in_memory(manager) == stored(manager)
    await manager.record_tokens(1)  # no turn is kept


async def test_block_that_was_cancelled_at_its_end_is_saved(base: Path) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create("tdflow", "red")
    with anyio.CancelScope() as scope:
        async with manager.changes():
            await manager.record_tokens(5)
            scope.cancel()
    assert (session.revision, session.token_budget.tokens_used) == (2, 5)
    assert in_memory(manager) == stored(manager)


async def test_other_tasks_wait_for_the_end_of_a_block(base: Path) -> None:
    manager = AsyncSessionManager(base)
    session = await manager.create("tdflow", "red")
    async with anyio.create_task_group() as group:
        entered = anyio.Event()

        async def other() -> None:
            await entered.wait()
            await manager.record_tokens(100)

        group.start_soon(other)
        async with manager.changes():
            entered.set()
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as own:  # tasks of the block belong to it
                own.start_soon(manager.record_tokens, 1)
                own.start_soon(manager.record_tokens, 2)
            spent = session.token_budget.tokens_used
    assert (spent, session.token_budget.tokens_used) == (3, 103)
    assert session.revision == 3
    assert in_memory(manager) == stored(manager)


async def test_cancelled_phase_leaves_the_session_as_it_was_before_it(base: Path) -> None:
    executor = WaitingExecutor()
    manager = AsyncSessionManager(SessionManager(base, executor=executor))
    session = await manager.create("tdflow", "red")
    revision = session.revision
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run_phase, "code")
        await until(executor.begun.is_set)
        group.cancel_scope.cancel()
    assert session.revision == revision
    assert in_memory(manager) == stored(manager)
    executor.waits = False
    assert (await manager.run_phase("code")).success
    assert session.revision == revision + 1


async def test_cancelled_question_waits_on_and_is_asked_once(base: Path, tmp_path: Path) -> None:
    questions = QuestionSessions(tmp_path / "questions")
    manager = AsyncSessionManager(SessionManager(base, channel=QuestionSessionChannel(questions)))
    await manager.create("tdflow", "red")
    asked = [Question(prompt="Which way?", title="Way", options=["left", "right"])]
    ids: list[str] = []
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            await manager.ask(asked, on_waiting=ids.append)

        group.start_soon(ask)
        await until(lambda: ids)
        group.cancel_scope.cancel()
    assert in_memory(manager) == stored(manager)
    channel = QuestionSessionChannel(questions)
    assert channel.answer(ids[0], ["left"])
    reply = await manager.ask(asked, on_waiting=ids.append)
    assert [one.selected for one in reply.answers] == [("left",)]
    assert ids[1:] in ([], ids[:1])
    assert in_memory(manager) == stored(manager)


async def test_sessions_are_found_some_at_a_time_with_other_calls_in_between(base: Path) -> None:
    manager = AsyncSessionManager(base)
    made = PREFETCHED + 2
    for number in range(made):
        await manager.create(goal=f"goal {number}")
        await manager.complete()
    found = []
    async for one in manager.find(state="completed"):
        found.append(one.session_id)
        if len(found) == 1:
            session = await manager.create(goal="another")
    assert len(found) == made
    assert found == sorted(found)
    async for one in manager.find(goal="another"):
        assert one.session_id == session.session_id
        break


async def test_no_more_is_read_ahead_than_a_part(base: Path) -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(10 * PREFETCHED):
            read.append(number)
            yield number

    iterator = Prefetching(numbers, Turns(), name="numbers")
    assert [await anext(iterator), await anext(iterator)] == [0, 1]
    assert len(read) == PREFETCHED
    assert [one async for one in iterator] == list(range(2, 10 * PREFETCHED))


async def test_many_managers_lead_their_sessions_in_one_loop(base: Path) -> None:
    managers = [AsyncSessionManager(base) for _ in range(50)]

    async def lead(manager: AsyncSessionManager) -> None:
        await manager.create("tdflow", "red")
        for _ in range(3):
            await manager.record_tokens(10)

    async with anyio.create_task_group() as group:
        for one in managers:
            group.start_soon(lead, one)
    assert len({one.current_session.session_id for one in managers if one.current_session}) == 50
    for one in managers:
        assert in_memory(one) == stored(one)
        assert one.current_session is not None
        assert one.current_session.token_budget.tokens_used == 30


async def test_block_that_is_cancelled_closes_the_manager(base: Path) -> None:
    with anyio.CancelScope() as scope:
        async with AsyncSessionManager(base) as manager:
            await manager.create("tdflow", "red")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert manager.current_session is None


async def test_calls_that_wait_for_long_hold_up_no_short_ones(base: Path) -> None:
    executors = [WaitingExecutor() for _ in range(SHORT_CALLS + 1)]
    managers = [AsyncSessionManager(SessionManager(base, executor=one)) for one in executors]
    for one in managers:
        await one.create("tdflow", "red")
    async with anyio.create_task_group() as group:
        for one in managers:
            group.start_soon(one.run_phase, "code")
        await until(lambda: all(one.begun.is_set() for one in executors))
        another = AsyncSessionManager(base)
        await another.create()
        group.cancel_scope.cancel()
    assert in_memory(another) == stored(another)


async def test_no_more_short_calls_than_the_limit_are_in_threads(base: Path) -> None:
    disks = [SlowDisk() for _ in range(SHORT_CALLS + 5)]
    managers = [AsyncSessionManager(SessionManager(SessionStore(base, fs=one))) for one in disks]
    for one in managers:
        await one.create()
    for disk in disks:
        disk.slow = True
    async with anyio.create_task_group() as group:
        for one in managers:
            group.start_soon(one.record_tokens, 1)
        await until(lambda: sum(disk.reached.is_set() for disk in disks) == SHORT_CALLS)
        await anyio.wait_all_tasks_blocked()
        assert sum(disk.reached.is_set() for disk in disks) == SHORT_CALLS
        for disk in disks:
            disk.released.set()
    assert all(one.current_session.token_budget.tokens_used == 1 for one in managers)  # type: ignore[union-attr]


def test_manager_serves_one_event_loop_after_another(base: Path) -> None:
    manager = AsyncSessionManager(base)

    async def begin() -> None:
        await manager.create()

    async def go_on() -> None:
        await manager.record_tokens(1)

    asyncio.run(begin())
    anyio.run(go_on, backend="trio")
    anyio.run(go_on, backend="asyncio")
    assert manager.current_session is not None
    assert manager.current_session.token_budget.tokens_used == 2
