"""Run one synchronous call in a thread, await it, and end it with the task that awaits it.

Each call gets a new thread, not one of anyio's pool, for three reasons: a native
`asyncio.Task.cancel()` abandons a pool thread, shielded or not; the pool's default limiter is
shared with the rest of the program, and a question to a person would occupy it for days; and no
thread remains after a call. A new thread costs about 0.12 ms a call, a pool thread 0.08 ms, a save
some milliseconds (docs/measurements/sessions.md, "Asynchronous code").
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...base.cancellation import CancelToken, OperationCancelled, cancellable
from ...base.errors import ExtraMissing
from ...base.event_log import get_logger

if TYPE_CHECKING:
    import anyio


def require_anyio() -> None:
    """Require anyio in a sufficient version.

    Raises:
        ExtraMissing: anyio is not installed, or too old.
    """
    try:
        from anyio.lowlevel import EventLoopToken  # noqa: F401 (from 4.11 on)
    except ImportError as error:
        raise ExtraMissing("the asynchronous face", "anyio 4.11 or newer", "async") from error


def caller_of_this_loop() -> Callable[[Callable[[], object]], object]:
    """Return a function that schedules a call in the running loop, from any thread.

    The function raises RuntimeError once the loop has ended.
    """
    from anyio.lowlevel import current_token

    native: Any = current_token().native_token
    if isinstance(native, asyncio.AbstractEventLoop):
        return native.call_soon_threadsafe
    soon: Callable[[Callable[[], object]], object] = native.run_sync_soon
    return soon


SLOW_S: Final = 10.0
"""The time after which a cancelled call that still runs is logged, in seconds."""

_T = TypeVar("_T")
_log = get_logger("agentforge.aio")


class _Outcome(Generic[_T]):
    """Result or error of a call; neither is set until the call has ended."""

    value: _T
    error: BaseException | None = None


async def call_in_thread(work: Callable[[], _T], *, name: str, slow_s: float = SLOW_S) -> _T:
    """Call a function in a new thread and return its result.

    Cancelling the awaiting task cancels the thread's token (`cancellation`); the cancellation is
    raised once the thread has ended: a save that has started completes, waits and running code end
    soon. No thread is left behind. If the call fails meanwhile, its error is raised instead of the
    cancellation, so that no failure is lost.

    Args:
        work: The function; called with the context variables of the task.
        name: The name of the thread, also used in the log.
        slow_s: The time after which a cancelled call that still runs is logged, in seconds.
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
        except BaseException as error:  # noqa: BLE001 (raised again in the awaiting task)
            outcome.error = error
        with suppress(RuntimeError):  # the loop has ended: nothing awaits the call
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
        thread.join()  # returns at once: only its exit is left
        if outcome.error is not None and not isinstance(outcome.error, OperationCancelled):
            raise outcome.error from None
        raise
    try:
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
    finally:
        outcome.error = None  # breaks a cycle: this frame is in its traceback


async def _until(ended: anyio.Event, name: str, slow_s: float) -> None:
    """Wait until a cancelled call has ended, even if the task is cancelled again meanwhile."""
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
