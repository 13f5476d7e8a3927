"""The thread that has turns look at their clocks."""

from __future__ import annotations

import threading

from agentforge_sessions.sandbox.host.engine.clock import Ticker, TurnClock
from tests.support.interruption import interrupted_everywhere


def test_a_handler_that_raises_while_a_turn_is_begun_leaves_later_turns_their_ticks() -> None:
    ticked = threading.Event()
    ticker = Ticker(ticked.set, look_s=0.001)

    def ticks_for_another() -> bool:
        ticked.clear()
        clock = TurnClock(None)
        watching = threading.Thread(target=ticker.watch, args=(clock,), daemon=True)
        watching.start()
        try:
            return ticked.wait(10)
        finally:
            clock.over = True

    assert ticks_for_another()  # its thread has started
    begun = TurnClock(None)
    begun.over = True
    places = 0
    for _ in interrupted_everywhere(lambda: ticker.watch(begun)):
        places += 1
        assert ticks_for_another()
    assert places > 5
