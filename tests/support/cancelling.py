"""Operations that are cancelled at a moment that is a fact, and never at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agentforge_sessions.base.cancellation import CancelToken, cancellable
from tests.support.promptness import PATIENCE_S, wait_until


def cancelled_when(holds: Callable[[], object], work: Callable[[], object]) -> BaseException | None:
    """Do something in a thread, cancel it once something holds, and return what it raised.

    A thread that goes on regardless fails the test.
    """
    token = CancelToken()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            with cancellable(token):
                work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: holds() or not thread.is_alive())
    finally:
        token.cancel()
        thread.join(PATIENCE_S)
    assert not thread.is_alive(), "what was cancelled has not ended"
    return raised[0] if raised else None
