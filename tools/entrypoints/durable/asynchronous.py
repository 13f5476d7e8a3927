"""The asynchronous face of a durable session, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload

from ...base.clock import as_utc
from ...integrations.bridges.foreign_sessions import in_thread
from . import waits
from .face import SessionFace, kind_of_race, raced
from .flows import Flow, Io, Pause, Run, called
from .options import Budget, StepGiven, StepOptions
from .scopes import entered
from .steps import step
from .thread_calls import Rounds, ThreadCall, all_failed

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AsyncSession(SessionFace):
    """A durable session of an asynchronous program; see `Session` for its guarantees.

    The place of a step is that of its call, not of its `await`. A coroutine function runs in the
    loop and is cancelled by its timeout; any other function runs in a thread. What the session
    writes is written in threads; a cancelled task goes on when its write has ended.
    """

    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], R],
        /,
        *args: *Ts,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, R]: ...
    def step(
        self,
        name: str,
        function: Callable[[*Ts], Any],
        /,
        *args: *Ts,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, Any]:
        """Run a function once in the session's life; see `Session.step`."""
        [place] = self._places(name)
        how = self._options(name, function, options)
        return self._driven(step(self._core, place, function, args, how))

    @overload
    def map(
        self,
        name: str,
        function: Callable[[T], Coroutine[Any, Any, R]],
        items: Iterable[T],
        /,
        *,
        concurrency: int = 1,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, list[R]]: ...
    @overload
    def map(
        self,
        name: str,
        function: Callable[[T], R],
        items: Iterable[T],
        /,
        *,
        concurrency: int = 1,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, list[R]]: ...
    def map(
        self,
        name: str,
        function: Callable[[T], Any],
        items: Iterable[T],
        /,
        *,
        concurrency: int = 1,
        **options: Unpack[StepGiven],
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a step for each item, so many at once; see `Session.map`."""
        every = list(items)
        places = self._places(name, len(every))
        how = self._options(name, function, options)

        def run(number: int) -> Awaitable[Any]:
            flow = step(self._core, places[number], function, (every[number],), how)
            return self._driven(flow)

        works = [partial(run, number) for number in range(len(every))]
        return _in_rounds(works, concurrency)

    @overload
    def race(
        self,
        name: str,
        *functions: Callable[[], Coroutine[Any, Any, R]],
        returns: object | None = None,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def race(
        self, name: str, *functions: Callable[[], R], returns: object | None = None
    ) -> Coroutine[Any, Any, R]: ...
    def race(
        self, name: str, *functions: Callable[[], Any], returns: object | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Run functions against each other in one step; the others are cancelled."""
        [place] = self._places(name)
        kind = kind_of_race(functions, name) if returns is None else returns

        async def racing() -> Any:
            runs = raced(self._core, functions)
            return await _first_result([_called(run) for run in runs], place.path)

        return self._driven(step(self._core, place, racing, (), StepOptions(kind=kind)))

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Wait; see `Session.sleep`."""
        [place] = self._places("sleep")
        until = partial(self._until, seconds)
        return self._driven(waits.sleep_until(self._core, place, until))

    def sleep_until(self, moment: datetime) -> Coroutine[Any, Any, None]:
        """Wait until a moment; see `Session.sleep_until`."""
        [place] = self._places("sleep")
        return self._driven(waits.sleep_until(self._core, place, lambda: as_utc(moment)))

    def wait_for(self, signal: str) -> Coroutine[Any, Any, Any]:
        """Wait for a signal and return its value; see `Session.wait_for`."""
        [place] = self._places(f"wait for {signal}")
        return self._driven(waits.wait_for(self._core, place, signal))

    def ask(
        self, prompt: str, *, options: Sequence[str] | None = None, title: str | None = None
    ) -> Coroutine[Any, Any, str]:
        """Ask a person; see `Session.ask`."""
        question = waits.question(prompt, title, options)
        [place] = self._places("ask")
        return self._driven(waits.ask(self._core, place, question))

    def phase(self, name: str) -> Coroutine[Any, Any, None]:
        """Enter a phase, once; see `Session.phase`."""
        [place] = self._places(f"phase {name}")
        return self._driven(waits.enter_phase(self._core, place, name))

    def version(self, name: str, newest: int) -> Coroutine[Any, Any, int]:
        """Return which version of a part of the program runs; see `Session.version`."""
        return self._driven(waits.version(self._core, name, newest))

    def session(
        self,
        workflow: str,
        *,
        key: str | None = None,
        budget: int | Budget,
        inputs: object = None,
        returns: object | None = None,
    ) -> AbstractAsyncContextManager[AsyncSession]:
        """Return a part of this session that is a session itself; see `Session.session`."""
        part: AbstractAsyncContextManager[AsyncSession] = self._opened_part(
            workflow, key, budget, inputs, returns
        )
        return part

    async def finish(self, result: object = None) -> None:
        """Record the program's result, and complete the session; see `Session.finish`."""
        await in_thread(self._core.finish, result, self._returns)

    async def _driven(self, flow: Flow[T]) -> T:
        try:
            need = next(flow)
            while True:
                try:
                    found = await self._done(need)
                except GeneratorExit:
                    flow.close()
                    raise
                except BaseException as error:  # noqa: BLE001 (the flow decides)
                    need = flow.throw(error)
                else:
                    need = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _done(self, need: Io | Pause | Run) -> Any:
        if isinstance(need, Io):
            return await in_thread(need.call)
        if isinstance(need, Pause):
            return await self._sleep(need.seconds)
        if need.timeout_s is None:
            return await _called(need)
        try:
            async with asyncio.timeout(need.timeout_s) as limit:
                return await _called(need)
        except TimeoutError:
            if not limit.expired():
                raise
            raise need.timeout from None


async def _called(run: Run) -> Any:
    """Call a step's function as a part of its run: in the loop, or in a thread of its own."""
    if inspect.iscoroutinefunction(run.function):
        with entered(run.frame):
            return await run.function()
    found = await _in_own_thread(partial(called, run), run.frame.path)
    if inspect.isawaitable(found):
        with entered(run.frame):
            found = await found
    return found


async def _in_own_thread(work: Callable[[], T], name: str) -> T:
    """Await a call in a thread; a cancelled task does not wait for its end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def on_end(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended: nothing awaits the call
            loop.call_soon_threadsafe(settle)

    call = ThreadCall(work, name=name, on_end=on_end)
    await ended
    return call.result()


async def _in_rounds(works: Sequence[Callable[[], Awaitable[T]]], concurrency: int) -> list[T]:
    """As `thread_calls.in_rounds`, in tasks; if this one is cancelled, they are."""
    rounds: Rounds[Callable[[], Awaitable[T]], T] = Rounds(works, concurrency)

    async def go_on() -> None:
        while (one := rounds.next()) is not None:
            number, work = one
            try:
                rounds.ended(number, await work())
            except BaseException as error:
                rounds.failed(number, error)
                if not isinstance(error, Exception):
                    raise

    await _all([asyncio.ensure_future(go_on()) for _ in range(min(concurrency, len(works)))])
    return rounds.results()


async def _all(tasks: Sequence[asyncio.Future[None]]) -> None:
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancelled(tasks)


async def _cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks and await their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first_result(works: Sequence[Coroutine[Any, Any, T]], name: str) -> T:
    """As `thread_calls.first_result`, in tasks; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    errors: list[BaseException] = []
    try:
        for ended in asyncio.as_completed(tasks):
            try:
                return await ended
            except Exception as error:  # noqa: BLE001 (raised if every one failed)
                errors.append(error)
    finally:
        await _cancelled(tasks)
    raise all_failed(name, errors)


def slept(sleep: Callable[[float], Any] | None) -> Callable[[float], Awaitable[None]]:
    """Return a coroutine function that waits as a function does, or as asyncio does."""

    async def wait(seconds: float) -> None:
        found = (sleep or asyncio.sleep)(seconds)
        if inspect.isawaitable(found):
            await found

    return wait
