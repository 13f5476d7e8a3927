"""Quick executions wait for each other, in order, and for nothing that takes long."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agentforge_sessions.sandbox.interpreters.ready_interpreters import Admission
from tests.support.promptness import wait_until, when

LONG_S = 600.0


class Interrupted(Exception):
    """What a signal's handler raises here."""


@pytest.fixture
def interrupting() -> Iterator[signal.Signals]:
    """A signal that raises in the main thread, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def waits_in(admission: Admission, order: list[int], number: int) -> threading.Thread:
    """A thread that asks for admission, and is waiting for it when this returns."""

    def run() -> None:
        with admission.admitted():
            order.append(number)

    before = admission.waiting
    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: admission.waiting > before)
    return thread


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_are_admitted_than_may_be(most: int) -> None:
    admission = Admission(most, patience_s=LONG_S)
    counting = threading.Lock()
    inside, seen, done = 0, 0, 0

    def run() -> None:
        nonlocal inside, seen, done
        for _ in range(50):
            with admission.admitted():
                with counting:
                    inside += 1
                    seen = max(seen, inside)
                with counting:
                    inside -= 1
                    done += 1

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= most
    assert (done, admission.waiting) == (400, 0)


def test_they_are_admitted_in_the_order_in_which_they_came() -> None:
    admission = Admission(1, patience_s=LONG_S)
    order: list[int] = []
    with admission.admitted():
        threads = [waits_in(admission, order, number) for number in range(5)]
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_none_waits_for_long() -> None:
    admission = Admission(1, patience_s=0.01)
    with admission.admitted(), admission.admitted(), admission.admitted():
        assert admission.waiting == 0


def test_one_that_takes_long_is_not_waited_for() -> None:
    now = [0.0]
    admission = Admission(2, patience_s=LONG_S, clock=lambda: now[0])
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(admission.admitted())
        now[0] = LONG_S + 1
        for _ in range(2):
            held.enter_context(admission.admitted())  # at once
        order: list[int] = []
        thread = waits_in(admission, order, 1)
    thread.join()
    assert order == [1]


def test_who_is_interrupted_while_waiting_leaves_the_place_to_others(
    interrupting: signal.Signals,
) -> None:
    admission = Admission(1, patience_s=LONG_S)
    order: list[int] = []
    main = threading.main_thread().ident
    assert main is not None
    with admission.admitted():
        stop = when(lambda: admission.waiting == 1, lambda: signal.pthread_kill(main, interrupting))
        with pytest.raises(Interrupted), admission.admitted():
            order.append(0)
        stop.join()
        assert admission.waiting == 0
        after = waits_in(admission, order, 1)
    after.join()
    assert order == [1]


def test_what_is_raised_inside_ends_the_admission() -> None:
    admission = Admission(1, patience_s=LONG_S)
    for _ in range(3):
        with pytest.raises(Interrupted), admission.admitted():
            raise Interrupted
    assert admission.waiting == 0
