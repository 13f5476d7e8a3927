"""One call of the synchronous face in a thread, awaited, and ended with the task that awaits it.

A thread of its own for each call, not one of anyio's pool, for three reasons: a native
`asyncio.Task.cancel()` abandons a thread of the pool, whatever is shielded; the pool's default
limiter is shared with everything else in the program, which a question to a person would keep busy
for days; and of a call that has ended no thread is left. It costs some 0.12 ms a call, one of the
pool 0.08 ms, a save some milliseconds (docs/performance.md, "Asynchronous code").
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ...base.cancellation import CancelToken, OperationCancelled, cancellable
from ...base.event_log import get_logger
from .event_loop import caller_of_this_loop

if TYPE_CHECKING:
    import anyio

SLOW_S: Final = 10.0
"""After how many seconds a cancelled call that still runs is logged."""

_T = TypeVar("_T")
_log = get_logger("agentforge.aio")


class _Outcome(Generic[_T]):
    """What a call returned or raised; neither until it has ended."""

    value: _T
    error: BaseException | None = None


async def call_in_thread(work: Callable[[], _T], *, name: str, slow_s: float = SLOW_S) -> _T:
    """Do something in a thread of its own, and return what it returns.

    When the awaiting task is cancelled, the thread's token is (`cancellation`), and the
    cancellation is raised once the thread has ended: what has begun to be saved is saved, what
    waits or runs code ends soon. No thread is left behind. A failure on the way is raised instead
    of the cancellation, so that nothing that failed is lost.

    Args:
        work: Is called with the context variables of the task.
        name: What it is, for the thread and the log.
        slow_s: After how many seconds a cancelled call that still runs is logged.
    """
    import anyio
    from anyio.lowlevel import checkpoint_if_cancelled

    await checkpoint_if_cancelled()
    ended, token, outcome = anyio.Event(), CancelToken(), _Outcome[_T]()
    call_in_loop = caller_of_this_loop()

    def run() -> None:
        try:
            with cancellable(token):
                outcome.value = work()
        except BaseException as error:  # noqa: BLE001 (raised again in the task that awaits it)
            outcome.error = error
        with suppress(RuntimeError):  # the loop has ended: nothing awaits it
            call_in_loop(ended.set)

    context = copy_context()
    thread = threading.Thread(
        target=context.run, args=(run,), name=f"agentforge-{name}", daemon=True
    )
    thread.start()
    try:
        await ended.wait()
    except anyio.get_cancelled_exc_class():
        token.cancel()
        await _until(ended, name, slow_s)
        thread.join()  # it has nothing left to do
        if outcome.error is not None and not isinstance(outcome.error, OperationCancelled):
            raise outcome.error from None
        raise
    try:
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
    finally:
        outcome.error = None  # this frame is in its traceback


async def _until(ended: anyio.Event, name: str, slow_s: float) -> None:
    """Wait until a cancelled call has ended, however often the task is cancelled meanwhile."""
    import anyio

    logged = False
    while not ended.is_set():
        with suppress(anyio.get_cancelled_exc_class()), anyio.CancelScope(shield=True):
            if logged:
                await ended.wait()
            with anyio.move_on_after(slow_s):
                await ended.wait()
            if not ended.is_set():
                _log.warning("async.cancellation.slow", call=name, seconds=slow_s)
                logged = True
