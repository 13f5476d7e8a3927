"""What an execution does with the pool, in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy
from agentforge_sessions.sandbox.executor import ExecutorSettings
from agentforge_sessions.sandbox.interpreter import GuestServices, Interpreter, InterpreterClass
from agentforge_sessions.sandbox.interpreter_lease import InterpreterLease
from agentforge_sessions.sandbox.ready_interpreters import ReadyInterpreters


class ReadyOne(ReadyInterpreters):
    """A pool of one interpreter that runs nothing; it writes down what is asked of it."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__(1, restore=True, lock=threading.Lock())
        self.asked = asked

    @contextmanager
    def admitted(self) -> Iterator[None]:
        self.asked.append("admitted")
        try:
            yield
        finally:
            self.asked.append("left")

    def take(self, kind: InterpreterClass, source: str = "") -> Interpreter | None:
        self.asked.append("take")
        return cast(Interpreter, self)

    def done(self, used: Interpreter | None) -> None:
        self.asked.append("done")

    def wait_ready(self, timeout_s: float) -> bool:
        return True

    @contextmanager
    def serving(self, services: object) -> Iterator[None]:
        yield


@pytest.mark.parametrize("fails", [False, True])
def test_an_execution_is_admitted_before_it_takes_an_interpreter_and_until_that_is_ready_again(
    tmp_path: Path, fails: bool
) -> None:
    asked: list[str] = []
    pool = ReadyOne(asked)
    lease = InterpreterLease(ExecutorSettings(tmp_path, ExecutionPolicy()), None, pool=lambda: pool)
    services = GuestServices(cast(Any, None), None, cast(Any, None), mounted={})

    def turn(interpreter: Interpreter, origin: str, lost: str | None) -> str:
        asked.append(origin)
        if fails:
            raise KeyboardInterrupt
        return "result"

    with ExitStack() as expected:
        if fails:
            expected.enter_context(pytest.raises(KeyboardInterrupt))
        with ExitStack() as afterwards:
            lease.run(cast(Any, None), services, afterwards, turn)
            assert asked == ["admitted", "take", "pool"]
    assert asked == ["admitted", "take", "pool", "done", "left"]
