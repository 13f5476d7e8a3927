"""Code whose variables last from call to call, and from server to server."""

from __future__ import annotations

from typing import Any

import pytest

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.harness import PhaseResult, PhaseWaits, SessionManager, SessionStore
from agentforge_sessions.sandbox import ProgramSnapshot
from agentforge_sessions.wiring.bootstrap import build_executor
from agentforge_sessions.wiring.phases.lasting_executor import VARIABLES

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def session_id(store: SessionStore) -> str:
    return SessionManager(store).create(goal="g", initial_phase="red").session_id


def run(store: SessionStore, session_id: str, code: str, **limits: Any) -> PhaseResult:
    """Run code as a server of its own would."""
    executor = build_executor(store, CancelToken(), lasting=True)
    manager = SessionManager(store, executor=executor)
    manager.load(session_id)
    return manager.run_phase(code, **limits)


def test_variables_last_and_a_limit_leaves_them_as_they_were(
    store: SessionStore, session_id: str
) -> None:
    assert run(store, session_id, "import json\nx = [1]\ndef more(): return x + [2]").success
    assert run(store, session_id, "x.append(7)\nprint(more(), json.dumps(x))").stdout == (
        "[1, 7, 2] [1, 7]\n"
    )
    assert run(store, session_id, "x = 0\nwhile True: pass", deadline_s=0.5).trapped == "deadline"
    assert run(store, session_id, "x.append(8)\n1 / 0").exit_code == 1
    assert run(store, session_id, "print(x)").stdout == "[1, 7, 8]\n"


def test_sessions_have_variables_of_their_own(store: SessionStore, session_id: str) -> None:
    other = SessionManager(store).create(goal="g", initial_phase="red").session_id
    run(store, session_id, "x = 1")
    assert run(store, other, "print('x' in globals())").stdout == "False\n"


def test_code_that_waits_leaves_variables_when_it_has_ended(
    store: SessionStore, session_id: str
) -> None:
    run(store, session_id, "x = 1")
    code = "import asyncio\nimport agentforge\nx = 2\nawait asyncio.sleep(1.2)\nx = 3"
    with pytest.raises(PhaseWaits) as waits:
        run(store, session_id, code)
    assert waits.value.wake_at is not None
    stored = store.read_step(session_id, VARIABLES)
    while True:
        try:
            assert run(store, session_id, code).success
            break
        except PhaseWaits:
            assert store.read_step(session_id, VARIABLES) == stored
    assert run(store, session_id, "print(x)").stdout == "3\n"


def test_variables_that_cannot_go_on_are_lost_with_the_reason(
    store: SessionStore, session_id: str
) -> None:
    run(store, session_id, "x = 1")
    stored = store.read_step(session_id, VARIABLES)
    assert stored is not None
    assert ProgramSnapshot(stored)
    store.keep_step(session_id, VARIABLES, stored[:-1])
    result = run(store, session_id, "print('x' in globals())\ny = 5")
    assert (result.success, result.stdout) == (True, "False\n")
    assert "the earlier variables are lost" in result.stderr
    assert "cut short" in result.stderr
    assert run(store, session_id, "print(y)").stdout == "5\n"
