"""The one token by which another thread ends what a thread does."""

from __future__ import annotations

import threading

import pytest

from agentforge_sessions.base.cancellation import (
    CancelToken,
    OperationCancelled,
    cancellable,
    cancellable_sleep,
    check_cancelled,
    current_token,
    is_cancelled,
    on_cancel,
    shielded,
)
from agentforge_sessions.base.cancellation import CancelToken as SandboxToken
from tests.support.cancelling import cancelled_when


def test_what_no_token_ends_goes_on() -> None:
    check_cancelled()
    assert current_token() is None
    assert not is_cancelled()


def test_cancelled_operation_raises_where_it_looks() -> None:
    token = CancelToken()
    with cancellable(token):
        check_cancelled()
        token.cancel()
        assert is_cancelled()
        with pytest.raises(OperationCancelled):
            check_cancelled()
    check_cancelled()


def test_cancellation_is_no_failure_that_a_handler_could_take_it_for() -> None:
    assert not issubclass(OperationCancelled, Exception)


def test_what_puts_things_right_goes_on_whatever_is_cancelled() -> None:
    token = CancelToken()
    token.cancel()
    with cancellable(token):
        with shielded():
            check_cancelled()
        assert is_cancelled()


def test_callback_is_called_once_when_the_token_is_cancelled() -> None:
    calls: list[str] = []
    token = CancelToken()
    with token.calling(lambda: calls.append("inner")):
        token.cancel()
    assert calls == ["inner"]


def test_callback_is_called_at_once_where_the_token_was_cancelled_before() -> None:
    token = CancelToken()
    token.cancel()
    calls: list[str] = []
    with cancellable(token), on_cancel(lambda: calls.append("x")):
        assert calls == ["x"]


def test_callback_is_not_called_after_its_block() -> None:
    token = CancelToken()
    calls: list[str] = []
    with token.calling(lambda: calls.append("x")):
        pass
    token.cancel()
    assert calls == []


def test_nothing_is_called_where_nothing_cancels() -> None:
    with on_cancel(lambda: pytest.fail("called")):
        pass


def test_another_thread_has_another_token() -> None:
    found: list[object] = []
    with cancellable(CancelToken()):
        thread = threading.Thread(target=lambda: found.append(current_token()))
        thread.start()
        thread.join()
    assert found == [None]


def test_sleep_ends_with_the_operation() -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        cancellable_sleep(3600)

    assert isinstance(cancelled_when(begun.is_set, work), OperationCancelled)


def test_sleep_lasts_its_time_where_nothing_cancels() -> None:
    cancellable_sleep(0)


def test_the_sandbox_is_stopped_by_the_same_token() -> None:
    assert SandboxToken is CancelToken
