"""A look at a session: how it ends, whatever happens, and what is then so of the session."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.entrypoints.worker.session_runs import look_at, pause
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.harness import (
    PhaseResult,
    SessionConflict,
    SessionFenced,
    SessionManager,
    SessionNotFound,
    SessionState,
)
from agentforge_sessions.testing import MemorySessions, ScriptedAnswers
from agentforge_sessions.workflows import (
    AlreadyRunning,
    Phase,
    RunOutcome,
    Script,
    Stop,
    StopCause,
    Workflow,
    WorkflowRunner,
)
from agentforge_sessions.workflows.errors import AttemptsExhausted, BudgetTooSmall, NoAgent
from agentforge_sessions.workflows.workflow import RunRetry
from tests.support.clock import START, FakeClock
from tests.support.executors import FAILED, SUCCEEDED, TRAPPED, FakeExecutor, WaitingExecutor

RETRY = RunRetry(attempts=1)
WORK = Workflow(
    name="drill",
    workflow_type="drill",
    phases=[
        Phase(name="a", gate=Script(code="pass"), tokens=10, max_attempts=2),
        Phase(name="b", gate=Script(code="pass"), tokens=5),
    ],
    token_budget=1000,
    retry=RETRY,
)


class Place:
    """A store with one session that was begun."""

    def __init__(self, tmp_path: Path, *results: PhaseResult, work: Workflow = WORK) -> None:
        self.executor = FakeExecutor(list(results) or [SUCCEEDED])
        self.store = MemorySessions(tmp_path)
        self.manager = SessionManager(self.store, executor=self.executor)
        self.session_id = WorkflowRunner(self.manager).begin(work)

    def look(self, resume: Callable[[str], RunOutcome] | None = None) -> Look:
        class Runner(WorkflowRunner):
            def resume(self, session_id: str, agent: Any = None) -> RunOutcome:
                return resume(session_id) if resume else super().resume(session_id, agent)

        return look_at(
            self.session_id,
            lambda: self.manager,
            lambda manager, measures: Runner(manager, observer=measures),
        )

    @property
    def state(self) -> SessionState:
        session = self.store.load(self.session_id)
        assert session is not None
        return session.state

    def raising(self, error: BaseException) -> Look:
        def resume(session_id: str) -> RunOutcome:
            raise error

        return self.look(resume)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_run_to_the_end_says_what_it_spent(place: Place) -> None:
    look = place.look()
    assert look.ending is Ending.COMPLETED
    assert (look.tokens, look.phases) == (15, (("a", 0.25), ("b", 0.25)))
    assert place.manager.current_session is None
    assert place.look().ending is Ending.ABSENT


def test_a_script_that_failed_is_a_persons(tmp_path: Path) -> None:
    place = Place(tmp_path, FAILED)
    look = place.look()
    assert (look.ending, look.cause) == (Ending.PAUSED, "failed")
    assert place.look().ending is Ending.PAUSED
    assert len(place.executor.executions) == 1


def test_a_script_that_went_over_its_time_limit_may_pass_as_often_as_its_phase_allows(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, TRAPPED)
    assert place.look().ending is Ending.MAY_PASS
    last = place.look()
    assert (last.ending, last.retry) == (Ending.PAUSED, RETRY)
    assert place.look().ending is Ending.PAUSED
    assert len(place.executor.executions) == 2


def test_a_script_that_waits_is_looked_at_by_any_answer_or_when_it_wakes(tmp_path: Path) -> None:
    clock, channel, executor = FakeClock(), ScriptedAnswers(), WaitingExecutor()
    moment = START + timedelta(hours=8)
    code = f"ask Deploy?\nsleep {moment.isoformat()}\nanswers"
    work = evolve(WORK, phases=[Phase(name="only", gate=Script(code=code))])
    store = MemorySessions(tmp_path)

    def manager() -> SessionManager:
        return SessionManager(store, executor=executor, channel=channel, clock=clock)

    session_id = WorkflowRunner(manager()).begin(work)

    def look() -> Look:
        runner = lambda one, measures: WorkflowRunner(one, observer=measures)  # noqa: E731
        return look_at(session_id, manager, runner, clock=clock)

    asked = look()
    assert (asked.ending, asked.cause, asked.after_s) == (Ending.PAUSED, "person", None)
    assert "waits at <phase>:2 in <module> for the answer to question q-1" in (asked.reason or "")
    channel.answer("q-1", text="yes")
    asleep = look()
    assert (asleep.ending, asleep.cause, asleep.after_s) == (Ending.PAUSED, "time", 28_800.0)
    assert look().after_s == 28_800.0
    clock.now = moment
    assert look().ending is Ending.COMPLETED
    assert executor.runs == ["execute", "resume {1: 'yes'}", "resume {}"]


def test_an_agent_that_cant_be_asked_may_pass(place: Place) -> None:
    def resume(session_id: str) -> RunOutcome:
        manager = place.manager
        manager.open(session_id)
        manager.pause("no agent", cause="agent")
        stop = Stop(reason="no agent", cause=StopCause.AGENT)
        return RunOutcome(
            session_id=session_id,
            state=SessionState.PAUSED,
            phases_done=[],
            reason="no agent",
            stop=stop,
        )

    assert place.look(resume).ending is Ending.MAY_PASS
    assert place.look().ending is Ending.COMPLETED  # it takes up what stopped so


def test_what_a_person_paused_is_left_alone(place: Place) -> None:
    place.manager.open(place.session_id)
    place.manager.pause("for a while")
    look = place.look()
    assert (look.ending, look.reason) == (Ending.PAUSED, "for a while")
    assert place.executor.executions == []


def test_what_stopped_for_the_budget_goes_on_once_there_is_enough(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.manager.open(place.session_id)
    place.manager.record_tokens(995)
    assert (place.look().ending, place.state) == (Ending.PAUSED, SessionState.PAUSED)
    assert place.look().cause == "budget"
    place.manager.open(place.session_id)
    place.manager.extend_budget(100)
    assert place.look().ending is Ending.COMPLETED


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (KeyboardInterrupt(), Ending.STOPPED),
        (SessionFenced("s", path="p", expected_revision=1), Ending.FENCED),
        (SessionConflict("s", path="p", expected_revision=1, actual_revision=2), Ending.FENCED),
        (SessionNotFound("s", path="p"), Ending.ABSENT),
        (AlreadyRunning("s"), Ending.BUSY),
        (WriteError(path=Path("p"), operation="save", cause=OSError(5, "io")), Ending.UNAVAILABLE),
    ],
)
def test_an_error_that_says_nothing_of_the_session_leaves_it_as_it_is(
    place: Place, error: BaseException, ending: Ending
) -> None:
    assert place.raising(error).ending is ending
    assert place.state is SessionState.ACTIVE


@pytest.mark.parametrize("error", [NoAgent("s"), RuntimeError("a fault"), ValueError("odd")])
def test_an_error_that_will_not_pass_pauses_the_session_with_the_reason(
    place: Place, error: BaseException
) -> None:
    look = place.raising(error)
    assert look.ending is Ending.FAILED
    assert str(error) in str(look.reason)
    assert place.state is SessionState.PAUSED
    assert place.look().ending is Ending.PAUSED


@pytest.mark.parametrize(
    "error",
    [
        AttemptsExhausted("s", phase="a", attempts=2, max_attempts=2),
        BudgetTooSmall("s", phase="a", required=10, remaining=5),
    ],
)
def test_a_refusal_of_one_that_is_paused_for_it_is_no_failure(
    place: Place, error: Exception
) -> None:
    def resume(session_id: str) -> RunOutcome:
        place.manager.open(session_id)
        place.manager.pause("for the same", cause="failed")
        raise error

    assert place.look(resume).ending is Ending.PAUSED


def test_a_store_that_is_away_is_told_before_anything_runs(place: Place) -> None:
    error = WriteError(path=Path("p"), operation="open", cause=OSError(5, "io"))

    def manager_of() -> SessionManager:
        raise error

    look = look_at(place.session_id, manager_of, lambda *_: WorkflowRunner(place.manager))
    assert look.ending is Ending.UNAVAILABLE


def test_only_what_is_open_is_paused(place: Place) -> None:
    assert pause(place.manager, place.session_id, "it crashes") is True
    assert pause(place.manager, place.session_id, "it crashes") is True
    place.manager.open(place.session_id)
    place.manager.abort()
    assert pause(place.manager, place.session_id, "it crashes") is False
