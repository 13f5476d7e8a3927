"""The thread that has turns look at their clocks."""

from __future__ import annotations

import threading

from agentforge_sessions.sandbox.host.engine.clock import DEADLINE, Ticker, TurnClock
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


def test_a_clock_that_begins_again_allows_all_of_the_time() -> None:
    now = [0.0]
    clock = TurnClock(5.0, monotonic=lambda: now[0])
    now[0] = 5.0
    assert clock.due() == DEADLINE
    clock.begin_again()
    assert clock.due() is None
    now[0] = 10.0
    assert clock.due() == DEADLINE
    endless = TurnClock(None, monotonic=lambda: now[0])
    endless.begin_again()
    assert endless.due() is None
