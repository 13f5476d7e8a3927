"""A phase whose code waits, on every store: asked once, resumed at its line by any worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from agentforge_sessions.harness import LocalSessions, PhaseWaits, SessionConflict, SessionManager
from agentforge_sessions.harness.domain.history_events import (
    PhaseRequest,
    PhaseSuspended,
    ProgramDropped,
    QuestionAbandoned,
)
from agentforge_sessions.harness.errors import NoQuestionChannel
from agentforge_sessions.harness.ports import (
    PhaseResult,
    ResumingExecutor,
    SuspendedProgram,
    Unanswered,
)
from agentforge_sessions.harness.views.suspended_phases import suspended_phase
from tests.support.channels import MemoryChannel
from tests.support.clock import START, FakeClock
from tests.support.executors import FakeExecutor, WaitingExecutor
from tests.support.memory_snapshots import MemorySnapshots
from tests.support.observers import Remembering

DEPLOY = "say first\nask Deploy?\nanswers"
Lead = Callable[[], SessionManager]


@pytest.fixture
def executor() -> WaitingExecutor:
    return WaitingExecutor()


@pytest.fixture
def channel() -> MemoryChannel:
    return MemoryChannel()


@pytest.fixture
def lead(
    opened: Callable[[], LocalSessions],
    executor: WaitingExecutor,
    channel: MemoryChannel,
    clock: FakeClock,
) -> Lead:
    """Return what makes another worker, which has what is stored alone."""
    snapshots = MemorySnapshots(opened())

    def made() -> SessionManager:
        manager = SessionManager(
            opened(), executor=executor, channel=channel, snapshots=snapshots, clock=clock
        )
        for session_id in manager.store.list_sessions()[:1]:
            manager.open(session_id)
        return manager

    return made


@pytest.fixture
def manager(lead: Lead) -> SessionManager:
    manager = lead()
    manager.create("release", "deploy")
    manager.workspace_path()
    return manager


def waits(manager: SessionManager, code: str) -> PhaseWaits:
    with pytest.raises(PhaseWaits) as caught:
        manager.run_phase(code)
    return caught.value


def actions(manager: SessionManager) -> list[str]:
    assert manager.current_session is not None
    return [entry.action for entry in manager.current_session.history]


def last(manager: SessionManager, kind: type) -> object:
    assert manager.current_session is not None
    events = [entry.event for entry in manager.current_session.history]
    return next(one for one in reversed(events) if isinstance(one, kind))


def test_code_that_asks_is_stored_with_its_checkpoint_and_asked_once(
    manager: SessionManager, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    assert isinstance(executor, ResumingExecutor)
    error = waits(manager, DEPLOY)
    assert error.question_ids == ("q-1",)
    assert "at <phase>:1 in <module> for the answer to question q-1" in str(error)
    assert actions(manager) == ["session_created", "phase_suspended", "question_asked"]
    event = last(manager, PhaseSuspended)
    assert isinstance(event, PhaseSuspended)
    assert manager.store.read_step(error.session_id, event.program)
    assert manager.checkpoints()[-1].action == "phase_suspended"
    assert channel.asked == ["Deploy?"]


def test_a_run_without_an_answer_runs_nothing_and_writes_nothing(
    manager: SessionManager, lead: Lead, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    waits(manager, DEPLOY)
    revision = manager.current_session.revision  # type: ignore[union-attr]
    other = lead()
    waits(other, DEPLOY)
    assert other.current_session.revision == revision  # type: ignore[union-attr]
    assert executor.runs == ["execute"]
    assert channel.puts == 1


def test_a_question_is_announced_once(
    manager: SessionManager, lead: Lead, executor: WaitingExecutor, channel: MemoryChannel
) -> None:
    seen = Remembering()
    watched = SessionManager(
        manager.store,
        executor=executor,
        channel=channel,
        observers=[seen],
    )
    watched.open(manager.current_session.session_id)  # type: ignore[union-attr]
    for _ in range(2):
        waits(watched, DEPLOY)
    assert seen.names.count("question.waiting") == 1


def test_another_worker_resumes_it_at_its_line_with_the_answer(
    manager: SessionManager, lead: Lead, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    waits(manager, DEPLOY)
    channel.answer("q-1", text="yes")
    other = lead()
    result = other.run_phase(DEPLOY)
    assert (result.success, result.stdout) == (True, "yes")
    assert executor.runs == ["execute", "resume {1: 'yes'}"]
    assert actions(other)[-3:] == ["question_answered", "phase_resumed", "phase_succeeded"]
    assert suspended_phase(other.current_session) is None  # type: ignore[arg-type]


def test_answers_come_in_any_order_and_each_question_stays_the_same(
    manager: SessionManager, lead: Lead, channel: MemoryChannel
) -> None:
    code = "ask one | two | three\nanswers"
    assert len(waits(manager, code).question_ids) == 3
    channel.answer("q-2", text="2")
    error = waits(lead(), code)
    assert error.question_ids == ("q-1", "q-3")
    channel.answer("q-3", text="3")
    channel.answer("q-1", text="1")
    assert lead().run_phase(code).stdout == "2, 1, 3"
    assert channel.puts == 3


def test_a_rejected_question_is_an_error_for_the_code(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    waits(manager, DEPLOY)
    channel.reject("q-1", "not on Fridays")
    told = Unanswered("(not answered: not on Fridays)")
    assert manager.run_phase(DEPLOY).stdout == str(told)


def test_the_result_of_a_call_is_a_value(manager: SessionManager, channel: MemoryChannel) -> None:
    code = "call build\nanswers"
    waits(manager, code)
    assert channel.asked == ["The program calls build(). What is its result?"]
    channel.answer("q-1", text='{"ok": true}')
    assert manager.run_phase(code).stdout == "{'ok': True}"


def test_code_that_sleeps_goes_on_when_the_clock_is_past_that_moment(
    manager: SessionManager, lead: Lead, clock: FakeClock
) -> None:
    moment = START + timedelta(hours=8)
    code = f"sleep {moment.isoformat()}\nanswers"
    error = waits(manager, code)
    assert (error.wake_at, error.question_ids) == (moment, ())
    waits(lead(), code)
    clock.now = moment
    assert lead().run_phase(code).stdout == "awake"


@pytest.mark.parametrize("way", ["code", "attempt", "phase", "executor", "step"])
def test_what_can_not_go_on_is_dropped_with_a_word_and_its_question_ends(
    manager: SessionManager, channel: MemoryChannel, executor: WaitingExecutor, way: str
) -> None:
    waits(manager, DEPLOY)
    code = DEPLOY
    if way == "code":
        code += "\n"
    elif way == "attempt":
        manager.retry_phase()
    elif way == "phase":
        manager.advance_phase("verify")
    elif way == "executor":
        manager._executor = FakeExecutor()
    else:
        event = last(manager, PhaseSuspended)
        assert isinstance(event, PhaseSuspended)
        manager.record(replace(event, program="program-missing.aflive"))
    if way == "executor":
        assert manager.run_phase(code).success
    else:
        assert waits(manager, code).question_ids == ("q-2",)
        assert executor.runs == ["execute", "execute"]
    dropped = last(manager, ProgramDropped)
    assert isinstance(dropped, ProgramDropped)
    assert dropped.reason
    assert last(manager, QuestionAbandoned).question_id == "q-1"  # type: ignore[attr-defined]
    assert channel.replies["q-1"].outcome == "abandoned"


def test_a_return_to_the_suspension_takes_the_program_along_and_asks_again(
    manager: SessionManager, lead: Lead, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    waits(manager, DEPLOY)
    channel.answer("q-1", text="yes")
    assert manager.run_phase(DEPLOY).stdout == "yes"
    [point] = [one for one in manager.checkpoints() if one.action == "phase_suspended"]
    manager.rewind(point.number)
    assert waits(lead(), DEPLOY).question_ids == ("q-2",)
    channel.answer("q-2", text="no")
    assert lead().run_phase(DEPLOY).stdout == "no"
    assert executor.runs == ["execute", "resume {1: 'yes'}", "resume {1: 'no'}"]


def test_a_fork_takes_the_program_along_and_the_parent_keeps_its_own(
    manager: SessionManager, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    waits(manager, DEPLOY)
    parent = manager.current_session.session_id  # type: ignore[union-attr]
    manager.fork(manager.checkpoints()[-1].number)
    assert waits(manager, DEPLOY).question_ids == ("q-2",)
    channel.answer("q-2", text="fork")
    channel.answer("q-1", text="parent")
    assert manager.run_phase(DEPLOY).stdout == "fork"
    manager.open(parent)
    assert manager.run_phase(DEPLOY).stdout == "parent"
    assert executor.runs == ["execute", "resume {1: 'fork'}", "resume {1: 'parent'}"]


def test_of_two_that_resume_one_does(
    manager: SessionManager, lead: Lead, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    waits(manager, DEPLOY)
    channel.answer("q-1", text="yes")
    first, second = lead(), lead()

    def once() -> None:
        executor.during = None
        with pytest.raises(SessionConflict):
            second.run_phase(DEPLOY)

    executor.during = once
    assert first.run_phase(DEPLOY).stdout == "yes"
    assert executor.runs == ["execute", "resume {1: 'yes'}"]


def test_of_two_that_run_the_code_one_suspends_it(
    manager: SessionManager, lead: Lead, executor: WaitingExecutor, channel: MemoryChannel
) -> None:
    second = lead()

    def once() -> None:
        executor.during = None
        waits(second, DEPLOY)

    executor.during = once
    with pytest.raises(SessionConflict):
        manager.run_phase(DEPLOY)
    assert channel.puts == 1
    assert actions(lead()).count("phase_suspended") == 1


def test_a_worker_that_dies_while_it_goes_on_leaves_the_program_as_it_was(
    manager: SessionManager, lead: Lead, channel: MemoryChannel, executor: WaitingExecutor
) -> None:
    class Killed(BaseException):
        pass

    def die() -> None:
        executor.during = None
        raise Killed

    waits(manager, DEPLOY)
    channel.answer("q-1", text="yes")
    executor.during = die
    with pytest.raises(Killed):
        manager.run_phase(DEPLOY)
    assert lead().run_phase(DEPLOY).stdout == "yes"


def test_a_manager_that_can_ask_nobody_stores_the_program(
    manager: SessionManager, executor: WaitingExecutor, channel: MemoryChannel, lead: Lead
) -> None:
    silent = SessionManager(manager.store, executor=executor)
    silent.open(manager.current_session.session_id)  # type: ignore[union-attr]
    with pytest.raises(NoQuestionChannel):
        silent.run_phase(DEPLOY)
    assert waits(lead(), DEPLOY).question_ids == ("q-1",)
    assert executor.runs == ["execute"]


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([], "waits for nothing"),
        ([PhaseRequest(id=n, kind="ask", prompt="?") for n in range(33)], "more than 32 things"),
        ([PhaseRequest(id=1, kind="ask", prompt="?" * 100_001)], "more than 100,000 characters"),
    ],
)
def test_a_suspension_beyond_the_limits_is_a_failure(
    manager: SessionManager, requests: list[PhaseRequest], said: str
) -> None:
    suspended = SuspendedProgram(program=b"state", requests=tuple(requests))
    manager._executor = FakeExecutor([PhaseResult(success=False, suspended=suspended)])
    result = manager.run_phase("x")
    assert (result.success, result.trapped, result.suspended) == (False, "suspensions", None)
    assert said in result.stderr
    assert actions(manager) == ["session_created", "phase_failed"]


def test_code_that_waits_without_end_is_a_failure_in_the_end(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    waits(manager, "ask one\nask two")
    event = last(manager, PhaseSuspended)
    assert isinstance(event, PhaseSuspended)
    with manager.changes():
        for _ in range(999):
            manager.record(event)
    channel.answer("q-1", text="1")
    assert manager.run_phase("ask one\nask two").trapped == "suspensions"
    assert actions(manager).count("phase_suspended") == 1000
