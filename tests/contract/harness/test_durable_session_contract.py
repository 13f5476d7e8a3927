"""One suite for durable sessions on every store: what is recorded is neither run nor paid again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from agentforge_sessions import Budget, Retry, Session, Spend, session
from agentforge_sessions.base.search_words import SearchWords
from agentforge_sessions.entrypoints.durable.opening import SessionOpening
from agentforge_sessions.harness import LocalSessions, SessionManager, SessionState
from agentforge_sessions.harness.errors import NoActiveSession
from agentforge_sessions.harness.session_domain import InvalidStateTransition
from agentforge_sessions.harness.steps.errors import (
    ArgumentsDiffer,
    BudgetReached,
    KeyTaken,
    LeadLost,
    NestedStep,
    ProgramChanged,
    ResultNotKept,
    SessionFinished,
    SessionLed,
    StepFailed,
    StillWaiting,
)
from agentforge_sessions.harness.steps.program_sessions import send_signal, steps_of
from agentforge_sessions.harness.steps.step_log import StepLog
from agentforge_sessions.harness.views.session_head import SessionHead, SessionSummary
from agentforge_sessions.testing import ManualClock
from tests.support.channels import MemoryChannel

Open = Callable[[], LocalSessions]


class Killed(BaseException):
    """Ends a program as a kill does: no `except Exception` sees it."""


class Refused(Exception):
    """What a person's function raises."""


class World(NamedTuple):
    """A store, time and a person."""

    opened: Open
    clock: ManualClock
    channel: MemoryChannel

    def start(self, workflow: str = "report", **options: Any) -> SessionOpening:
        """Start the program as a process does."""
        given: dict[str, Any] = {
            "key": "k",
            "store": self.opened(),
            "clock": self.clock,
            "sleep": self.clock.sleep,
            "channel": self.channel,
            **options,
        }
        return session(workflow, **given)


@pytest.fixture
def world(opened: Open) -> World:
    return World(opened, ManualClock(), MemoryChannel())


class Paid:
    """A call that is counted, and fails as often as it is asked to."""

    def __init__(self, *, failures: int = 0, error: BaseException | None = None) -> None:
        self.calls: list[Any] = []
        self.keys: list[str] = []
        self.left = failures
        self.error = error or Refused("not now")

    def __call__(self, *args: Any, idempotency_key: str = "") -> Any:
        self.calls.append(args)
        self.keys.append(idempotency_key)
        if self.left:
            self.left -= 1
            raise self.error
        return [*args, "done"]

    @property
    def __name__(self) -> str:
        return "paid"


# ------------------------------------------------------------------------------- steps


def test_a_recorded_step_is_not_run_again(world: World) -> None:
    paid = Paid()
    for _ in range(3):
        with world.start() as s:
            assert s.step("outline", paid, "t") == ["t", "done"]
    assert paid.calls == [("t",)]


def test_a_program_that_was_killed_goes_on_after_its_last_recorded_step(world: World) -> None:
    first, second = Paid(), Paid(failures=1, error=Killed())

    def program(s: Session) -> list[Any]:
        found = [s.step("one", first), *(s.step("two", second, number) for number in (1, 2))]
        s.finish(found)
        return found

    with pytest.raises(Killed), world.start() as s:
        program(s)
    with world.start() as s:
        found = program(s)
    with world.start() as s:
        assert s.finished
        assert program(s) == s.result == found == [["done"], [1, "done"], [2, "done"]]
    assert (len(first.calls), second.calls) == (1, [(1,), (1,), (2,)])


def test_steps_of_one_name_are_numbered(world: World) -> None:
    with world.start() as s:
        s.step("a", Paid())
        s.step("b", Paid())
        s.step("a", Paid())
        found = steps_of(world.opened(), s.id)
    assert [(one.path, one.call) for one in found] == [("a#1", 0), ("b#1", 1), ("a#2", 2)]


def test_steps_within_a_step_have_its_path(world: World) -> None:
    inner = Paid()

    def outer(count: int) -> int:
        for number in range(count):
            s.step("inner", inner, number)
        return count

    with world.start() as s:
        s.step("outer", outer, 2)
        s.step("inner", inner)
        paths = [one.path for one in steps_of(world.opened(), s.id)]
    assert paths == ["outer#1/inner#1", "outer#1/inner#2", "outer#1", "inner#1"]


def test_steps_within_an_interrupted_step_are_not_run_again(world: World) -> None:
    inner, last = Paid(), Paid(failures=1, error=Killed())

    def outer() -> object:
        return [s.step("inner", inner), s.step("last", last)]

    with pytest.raises(Killed), world.start() as s:
        s.step("outer", outer)
    with world.start() as s:
        s.step("outer", outer)
    assert (len(inner.calls), len(last.calls)) == (1, 2)


def test_a_step_within_a_step_of_its_name_is_refused(world: World) -> None:
    paid = Paid()
    with world.start() as s, pytest.raises(NestedStep) as refused:
        s.step("a", lambda: s.step("b", lambda: s.step("a", paid)))
    assert (refused.value.name, refused.value.path, paid.calls) == ("a", "a#1/b#1", [])


def test_a_changed_order_of_steps_is_refused_before_anything_runs(world: World) -> None:
    paid = Paid()
    with world.start() as s:
        s.step("one", paid)
        s.step("two", paid)
    with world.start() as s:
        s.step("one", paid)
        with pytest.raises(ProgramChanged) as changed:
            s.step("three", paid)
    assert changed.value.before == ("one", "two")
    assert changed.value.now == ("one", "three")
    assert len(paid.calls) == 2


def test_a_result_is_what_was_recorded_in_the_first_run_too(world: World) -> None:
    given = [1, 2]
    with world.start() as s:
        assert s.step("a", lambda: given) == given
        assert s.step("a", lambda: given) is not given


def test_a_result_that_can_not_be_recorded_does_not_cost_twice(world: World) -> None:
    calls = []

    def work() -> Any:
        calls.append(1)
        s.spend(10)
        return object()

    for cause in (ResultNotKept, type(None)):
        with world.start() as s, pytest.raises(StepFailed, match="can't be recorded") as failed:
            s.step("a", work)
        assert isinstance(failed.value.__cause__, cause)
    assert calls == [1]
    assert s.budget.tokens == 100_000 - 10


def test_a_result_type_that_can_not_be_recorded_is_refused_before_the_call(world: World) -> None:
    calls = []

    def work() -> threading.Thread:
        calls.append(1)
        return threading.current_thread()

    with world.start() as s, pytest.raises(ResultNotKept):
        s.step("a", work)
    assert calls == []
    assert steps_of(world.opened(), s.id) == []


# ------------------------------------------------------------------------------- failures


def test_an_exception_passes_through_and_the_next_start_runs_the_step_again(world: World) -> None:
    paid = Paid(failures=1)
    with pytest.raises(Refused), world.start() as s:
        s.step("a", paid)
    with world.start() as s:
        assert s.step("a", paid) == ["done"]
    assert len(paid.calls) == 2


def test_a_failed_attempt_is_charged(world: World) -> None:
    def work() -> None:
        s.spend(70)
        raise Refused

    with pytest.raises(Refused), world.start() as s:
        s.step("a", work, spend=100)
    with world.start() as s:
        assert s.budget.tokens == 100_000 - 70
        s.step("a", lambda: None, spend=100_000 - 70)


def test_a_step_is_tried_again_after_growing_waits(world: World) -> None:
    paid = Paid(failures=4)
    with world.start() as s:
        s.step("a", paid, retry=Retry(5, wait_s=1, factor=3, most_wait_s=5))
    assert world.clock.pauses == [1, 3, 5, 5]
    assert steps_of(world.opened(), s.id)[0].attempts == 5
    assert len(set(paid.keys)) == 1


def test_retries_end_with_the_last_attempt(world: World) -> None:
    paid = Paid(failures=9)
    with world.start() as s, pytest.raises(Refused):
        s.step("a", paid, retry=3)
    assert len(paid.calls) == 3


def test_only_the_named_exceptions_are_tried_again(world: World) -> None:
    paid = Paid(failures=1, error=KeyError("x"))
    with world.start() as s, pytest.raises(KeyError):
        s.step("a", paid, retry=Retry(3, on=(Refused,)))
    assert len(paid.calls) == 1


def test_a_final_exception_is_recorded_and_raised_at_every_start(world: World) -> None:
    paid = Paid(failures=1)
    for _ in range(2):
        with world.start() as s, pytest.raises(StepFailed) as failed:
            s.step("a", paid, final=(Refused,), retry=3)
        assert failed.value.error_type.endswith("Refused")
        assert failed.value.reason == "not now"
    assert len(paid.calls) == 1


def test_what_the_session_refuses_is_never_a_final_failure(world: World) -> None:
    def outer() -> object:
        return s.step("inner", lambda: 1, spend=500)

    for budget, ends in ((100, pytest.raises(BudgetReached)), (None, None)):
        with world.start() as s:
            if ends is None:
                assert s.step("outer", outer) == 1
                continue
            with ends:
                s.step("outer", outer, final=(Exception,), retry=3, budget=budget)
    assert world.clock.pauses == []


def test_the_key_of_a_step_is_the_same_at_each_attempt_and_in_every_process(world: World) -> None:
    paid, other = Paid(failures=2), Paid()
    for _ in range(2):
        with pytest.raises(Refused), world.start() as s:
            s.step("a", paid)
    with world.start() as s:
        s.step("a", paid)
        s.step("a", other)
        assert s.step("b", lambda: s.idempotency_key) not in {*paid.keys, *other.keys, ""}
    assert len({*paid.keys}) == 1
    assert len({*paid.keys, *other.keys}) == 2


# ------------------------------------------------------------------------------- map


def test_a_map_returns_its_results_in_order(world: World) -> None:
    second = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert second.wait(30)
        else:
            second.set()
        return number * 10

    for _ in range(2):
        with world.start() as s:
            assert s.map("m", work, range(5), concurrency=2) == [0, 10, 20, 30, 40]
        second.clear()  # the second time nothing runs


def test_a_failed_map_records_what_ran(world: World) -> None:
    both, failed, calls = threading.Barrier(2), threading.Event(), []

    def work(number: int) -> int:
        calls.append(number)
        if number < 2 and calls.count(0) < 2:
            both.wait(30)
            if number == 0:
                failed.set()
                raise Refused
            failed.wait(30)
        return number

    with world.start() as s, pytest.raises(Refused):
        s.map("m", work, range(6), concurrency=2)
    with world.start() as s:
        assert s.map("m", work, range(6), concurrency=2) == [*range(6)]
    assert (calls.count(0), calls.count(1)) == (2, 1)


def test_a_failed_map_starts_no_more(world: World) -> None:
    paid = Paid(failures=1)
    with world.start() as s, pytest.raises(Refused):
        s.map("m", paid, range(3))
    assert paid.calls == [(0,)]


def test_steps_within_a_map_have_the_path_of_their_item(world: World) -> None:
    def work(number: int) -> object:
        return s.step("inner", lambda: number)

    with world.start() as s:
        s.map("m", work, [7, 8], concurrency=2)
        found = {one.path for one in steps_of(world.opened(), s.id)}
    assert found == {"m#1", "m#2", "m#1/inner#1", "m#2/inner#1"}


def test_the_first_result_of_a_race_is_recorded(world: World) -> None:
    started, go_on = threading.Event(), threading.Event()
    calls = []

    def slow() -> str:
        calls.append("slow")
        started.set()
        go_on.wait(30)
        return "slow"

    def quick() -> str:
        started.wait(30)
        calls.append("quick")
        return "quick"

    for _ in range(2):
        with world.start() as s:
            assert s.race("r", slow, quick) == "quick"
    go_on.set()
    assert sorted(calls) == ["quick", "slow"]


def test_a_race_that_all_lose_says_why(world: World) -> None:
    with world.start() as s, pytest.raises(ExceptionGroup) as lost:
        s.race("r", Paid(failures=1), Paid(failures=1, error=KeyError("x")))
    assert {type(one) for one in lost.value.exceptions} == {Refused, KeyError}


# ------------------------------------------------------------------------------- spending


def test_an_option_that_steps_do_not_have_is_refused_before_the_call(world: World) -> None:
    paid = Paid()
    misspelt: Any = {"spned": 50}
    with world.start() as s:
        for call in (s.step, s.map):
            with pytest.raises(TypeError, match="no option spned"):
                call("a", paid, [1], **misspelt)
    assert paid.calls == []


def test_a_call_beyond_the_budget_is_not_made(world: World) -> None:
    paid = Paid()
    with world.start(budget=100) as s:
        with pytest.raises(BudgetReached):
            s.step("a", paid, spend=101)
        assert paid.calls == []
    with world.start() as s:
        s.step("a", paid, spend=100)


def test_what_was_reserved_and_not_used_is_free_again(world: World) -> None:
    def work() -> None:
        s.spend(10)

    with world.start(budget=100) as s:
        for _ in range(3):
            s.step("a", work, spend=80)
        assert s.budget == Budget(70)
        with pytest.raises(BudgetReached):
            s.step("a", work, spend=80)


def test_the_usage_of_a_result_is_charged_unless_the_function_charges(world: World) -> None:
    answer = {"text": "x", "usage": {"input_tokens": 30, "output_tokens": 12}}

    def charges() -> object:
        s.spend(5)
        return answer

    with world.start(budget=100) as s:
        s.step("a", lambda: answer)
        assert s.budget.tokens == 58
        s.step("b", charges)
        assert s.budget.tokens == 53


def test_two_steps_side_by_side_can_not_overspend_together(world: World) -> None:
    reserved, over = threading.Barrier(2), []
    calls: list[int] = []

    def work(number: int) -> None:
        calls.append(number)
        over_or_both.wait(30)
        s.spend(60)

    over_or_both = threading.Event()

    def attempt(number: int) -> None:
        reserved.wait(30)
        try:
            s.step(f"s{number}", work, number, spend=60)
        except BudgetReached:
            over.append(number)
        over_or_both.set() if over else None

    with world.start(budget=100) as s:
        threads = [threading.Thread(target=attempt, args=(one,)) for one in (1, 2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        assert (len(calls), len(over), s.budget.tokens) == (1, 1, 40)


def test_a_step_has_a_budget_for_all_that_is_inside_it(world: World) -> None:
    paid = Paid()

    def inner() -> None:
        paid()
        s.spend(30)

    def outer() -> None:
        for _ in range(3):
            s.step("middle", lambda: s.step("inner", inner, spend=30))

    with world.start() as s, pytest.raises(BudgetReached) as reached:
        s.step("outer", outer, budget=70)
    assert (reached.value.scope, len(paid.calls)) == ("outer#1", 2)
    assert s.budget.tokens == 100_000 - 60


def test_an_overspent_session_makes_no_further_call(world: World) -> None:
    paid = Paid()
    with world.start(budget=100) as s:
        s.step("a", lambda: s.spend(100))
        s.step("b", paid)
        s.step("c", lambda: s.spend(1))
        with pytest.raises(BudgetReached):
            s.step("d", paid)
    assert len(paid.calls) == 1


def test_a_budget_in_dollars_is_a_limit(world: World) -> None:
    def work() -> None:
        s.spend(1, usd=0.75)

    with world.start(budget=Budget(usd=1.0)) as s:
        s.step("a", work, spend=Spend(usd=0.75))
        assert s.budget == Budget(99_999, 0.25)
        with pytest.raises(BudgetReached, match=r"\$0\.75"):
            s.step("a", work, spend=Spend(usd=0.75))


def test_spending_outside_of_steps_is_charged_once(world: World) -> None:
    for _ in range(2):
        with world.start(budget=100) as s:
            s.spend(10)
            s.spend(20)
            assert s.budget.tokens == 70


def test_a_store_shows_what_was_spent_at_any_time(world: World) -> None:
    with world.start(budget=100) as s:
        s.step("a", lambda: s.spend(10))
        store = world.opened()
        found = store.load(s.id)
        assert found is not None
        assert found.token_budget.tokens_used == 10
        page = store.page(limit=1)
        words = SearchWords.of("report")
        for listed in (*store.summaries(), *page.sessions, *store.candidates(words)):
            assert isinstance(listed, SessionSummary)
            assert listed.head == SessionHead.of(found)


# ------------------------------------------------------------------------------- the session


def test_a_finished_session_returns_its_result_and_runs_nothing(world: World) -> None:
    paid = Paid()
    with world.start() as s:
        s.finish({"a": [1]})
        assert s.result == {"a": [1]}
        assert s.state is SessionState.COMPLETED
    with world.start() as s:
        assert (s.finished, s.result, s.state) == (True, {"a": [1]}, SessionState.COMPLETED)
        s.finish("other")
        with pytest.raises(SessionFinished):
            s.step("a", paid)
        assert s.result == {"a": [1]}
    assert paid.calls == []
    found = world.opened().load(s.id)
    assert found is not None
    assert found.state is SessionState.COMPLETED


def test_a_program_that_died_between_its_result_and_its_end_is_completed(world: World) -> None:
    with world.start() as s:
        s._core.log.finish("json", b"5")
    with world.start() as s:
        assert (s.finished, s.result) == (True, 5)
    found = world.opened().load(s.id)
    assert found is not None
    assert found.state is SessionState.COMPLETED


def test_leaving_the_block_writes_the_session_and_lets_go_of_it(world: World) -> None:
    def interrupted() -> None:
        s.spend(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), world.start() as s:
        s.step("a", interrupted)
    found = world.opened().load(s.id)
    assert found is not None
    assert found.state is SessionState.ACTIVE
    assert found.workflow_state["steps"]["tokens"] == 3
    assert not world.opened().is_led(s.id)
    with pytest.raises(NoActiveSession):
        s.step("b", Paid())


def test_a_second_process_is_refused_before_anything_runs(world: World) -> None:
    with world.start() as s:
        with pytest.raises(SessionLed), world.start():
            raise AssertionError
        s.step("a", lambda: 1)


def test_a_worker_that_was_overtaken_records_nothing_more(world: World) -> None:
    with world.start() as s:
        StepLog(world.opened(), s.id).take_lead()
        with pytest.raises(LeadLost):
            s.step("a", lambda: 1)
    assert steps_of(world.opened(), s.id) == []


def test_a_key_of_another_workflow_is_refused(world: World) -> None:
    with world.start():
        pass
    with pytest.raises(KeyTaken), world.start("other"):
        raise AssertionError


def test_other_arguments_are_refused(world: World) -> None:
    with world.start(inputs={"topic": "a"}):
        pass
    with world.start(inputs={"topic": "a"}):
        pass
    with pytest.raises(ArgumentsDiffer), world.start(inputs={"topic": "b"}):
        raise AssertionError


def test_a_pause_by_another_process_is_noticed_before_the_next_step(world: World) -> None:
    paid = Paid()
    with world.start() as s:
        s.step("a", paid)
        manager = SessionManager(world.opened())
        manager.open(s.id)
        manager.pause("wait")
        with pytest.raises(InvalidStateTransition):
            s.step("b", paid)
    with pytest.raises(InvalidStateTransition), world.start():
        raise AssertionError
    SessionManager(world.opened()).resume(s.id)
    with world.start() as s:
        s.step("a", paid)
        s.step("b", paid)
    assert len(paid.calls) == 2


def test_a_budget_that_another_process_extends_counts_at_the_next_step(world: World) -> None:
    with world.start(budget=100) as s:
        with pytest.raises(BudgetReached):
            s.step("a", Paid(), spend=150)
        manager = SessionManager(world.opened())
        manager.open(s.id)
        manager.extend_budget(50)
        s.step("a", Paid(), spend=150)
        assert s.budget.tokens == 150


# ------------------------------------------------------------------------------- waits


def test_a_timer_counts_from_the_first_start(world: World) -> None:
    with world.start(patience_s=0) as s, pytest.raises(StillWaiting):
        s.sleep(100)
    world.clock.advance(60)
    with world.start() as s:
        s.sleep(100)
        assert sum(world.clock.pauses) == pytest.approx(40)
        s.step("a", Paid())
    with world.start() as s:
        s.sleep(100)
    assert sum(world.clock.pauses) == pytest.approx(40)


def test_each_wait_gets_the_next_signal(world: World) -> None:
    with world.start(patience_s=5) as s:
        with pytest.raises(StillWaiting) as waiting:
            s.wait_for("approved")
        assert "approved" in waiting.value.awaited
        assert sum(world.clock.pauses) == pytest.approx(5)
    for value in ("one", {"two": 2}):
        send_signal(world.opened(), s.id, "approved", value, by="a test")
    for _ in range(2):
        with world.start(patience_s=0) as s:
            assert s.step("in", lambda: s.wait_for("approved")) == "one"
            assert s.wait_for("approved") == {"two": 2}


def test_a_person_is_asked_once_and_may_answer_while_no_process_runs(world: World) -> None:
    for _ in range(2):
        with world.start(patience_s=3) as s, pytest.raises(StillWaiting):
            s.ask("Publish?", options=["Yes", "No"])
    [question_id] = world.channel.questions
    world.channel.answer(question_id, "Yes")
    for _ in range(2):
        with world.start(patience_s=0) as s:
            assert s.ask("Publish?", options=["Yes", "No"]) == "Yes"
    assert world.channel.puts == 1


def test_a_question_that_ended_without_an_answer_fails_for_good(world: World) -> None:
    with world.start(patience_s=0) as s, pytest.raises(StillWaiting):
        s.ask("Publish?")
    world.channel.withdraw(next(iter(world.channel.questions)), "never mind")
    for _ in range(2):
        with world.start() as s, pytest.raises(StepFailed, match="never mind"):
            s.ask("Publish?")


def test_a_phase_is_entered_once(world: World) -> None:
    for _ in range(2):
        with world.start() as s:
            s.phase("plan")
            s.step("a", Paid())
            s.phase("build")
    found = world.opened().load(s.id)
    assert found is not None
    entered = [one.phase for one in found.history if one.action == "phase_advanced"]
    assert (entered, found.current_phase) == (["plan", "build"], "build")


def test_a_phase_whose_call_was_not_recorded_is_not_entered_twice(world: World) -> None:
    with world.start() as s:
        manager = SessionManager(world.opened())
        manager.open(s.id)
        manager.advance_phase("plan")  # as far as a process came that was killed
        s.phase("plan")
    found = world.opened().load(s.id)
    assert found is not None
    assert [one.phase for one in found.history if one.action == "phase_advanced"] == ["plan"]


def test_a_version_lets_a_session_go_on_as_it_began(world: World) -> None:
    with world.start(key="old") as s:
        s.step("a", Paid())
    for key, expected in (("old", 1), ("new", 2)):
        for _ in range(2):
            with world.start(key=key) as s:
                assert s.version("way", 2) == expected
                s.step("a" if expected == 1 else "b", Paid())
                s.step("c", Paid())


# ------------------------------------------------------------------------------- parts


def test_a_part_spends_of_its_session_and_runs_once(world: World) -> None:
    paid = Paid()

    def program(s: Session) -> Any:
        with s.session("part", budget=50) as part:
            part.step("a", lambda: (paid(), part.spend(20))[0])
            part.finish("made")
            return part.result

    for _ in range(3):
        with world.start(budget=100) as s:
            assert program(s) == "made"
            assert s.budget.tokens == 80
    assert len(paid.calls) == 1
    part = next(one for one in world.opened().list_sessions() if one != s.id)
    found = world.opened().load(part)
    assert found is not None
    assert (found.parent_id, found.token_budget.total_budget) == (s.id, 50)


def test_a_part_that_its_session_can_not_pay_is_not_begun(world: World) -> None:
    with world.start("other", key="k/x"):
        pass
    with world.start(budget=100) as s:
        s.step("a", lambda: s.spend(60))
        with pytest.raises(BudgetReached), s.session("part", budget=50):
            raise AssertionError
        with pytest.raises(ArgumentsDiffer), s.session("other", key="x", budget=40, inputs=1):
            raise AssertionError
        with s.session("small", budget=40) as part, pytest.raises(BudgetReached):
            part.step("a", Paid(), spend=41)
    assert len(world.opened().list_sessions()) == 3


async def asynchronous(world: World, calls: list[str]) -> str:
    async def work(name: str) -> str:
        calls.append(name)
        return name

    async with world.start() as s:
        first = await s.step("a", work, "a")
        both = await s.map("m", work, ["b", "c"], concurrency=2)
        await s.phase("last")
        await s.finish("".join([first, *both]))
        return str(s.result)


def test_the_asynchronous_face_leads_in_threads_of_its_own(world: World) -> None:
    calls: list[str] = []
    assert [asyncio.run(asynchronous(world, calls)) for _ in range(2)] == ["abc", "abc"]
    assert sorted(calls) == ["a", "b", "c"]
    assert not any(map(world.opened().is_led, world.opened().list_sessions()))
