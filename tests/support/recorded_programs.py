"""Sessions of programs, with steps recorded as a program records them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentforge_sessions.base.clock import Clock
from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.harness import LocalSessions
from agentforge_sessions.harness.steps.program_sessions import (
    ProgramKey,
    begin_or_go_on,
    checkpoint,
    led,
)
from agentforge_sessions.harness.steps.step_log import StepLog
from tests.support.clock import FakeClock

Record = Callable[..., None]


def begin_program(
    store: LocalSessions, *, workflow: str = "report", key: str = "AI", clock: Clock | None = None
) -> str:
    """Begin the session of a program, or go on with it; return its id."""
    program = ProgramKey(workflow, key, None)
    clock = FakeClock() if clock is None else clock
    return begin_or_go_on(store, program, budget=50_000, goal="A report", clock=clock).session_id


@contextmanager
def recording(
    store: LocalSessions, session_id: str, *, clock: Clock | None = None
) -> Iterator[Record]:
    """Lead a program's session; yield what records its next steps, one call of each."""
    clock = FakeClock() if clock is None else clock
    with led(store, session_id, clock=clock) as log:

        def record(*paths: str, tokens: int = 100, error: tuple[str, str] | None = None) -> None:
            for path in paths:
                _record(log, path, tokens, error)

        yield record
        checkpoint(log)


def _record(log: StepLog, path: str, tokens: int, error: tuple[str, str] | None) -> None:
    ended = {"outcome": "ok", "codec": "json"}
    if error is not None:
        ended = {"outcome": "failed", "codec": "error"}
    scope = path.rpartition("/")[0]
    index = sum(1 for one in log.history.records() if one.scope == scope)
    log.record(
        path,
        index,
        **ended,
        body=json.dumps(error or path).encode(),
        spent=Amount(tokens, tokens * 10),
        started=log.clock(),
        took_us=1_500_000,
    )


def fail_attempt(store: LocalSessions, session_id: str, path: str, error: str) -> None:
    """Record an attempt at a step that is to be tried again."""
    with led(store, session_id, clock=FakeClock()) as log:
        log.attempt_failed(path, 9, error=error, spent=Amount(), started=log.clock())
