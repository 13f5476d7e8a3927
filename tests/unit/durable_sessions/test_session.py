"""The synchronous face: what needs no store of its own kind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions import Budget, Retry, Session, SessionStore, session
from agentforge_sessions.base.cancellation import CancelToken, OperationCancelled, cancellable
from agentforge_sessions.base.files import WriteError
from agentforge_sessions.entrypoints.durable.limits import LimitReached
from agentforge_sessions.entrypoints.durable.opening import SessionOpening
from agentforge_sessions.harness.errors import SessionNotAdopted
from agentforge_sessions.harness.steps.errors import (
    ArgumentsDiffer,
    InvalidStepName,
    SessionFinished,
    StepTimeout,
    StillWaiting,
)
from agentforge_sessions.harness.steps.program_sessions import steps_of
from agentforge_sessions.testing import ManualClock, MemorySessions, ScriptedAnswers

Start = Callable[..., SessionOpening]


@pytest.fixture
def sessions(tmp_path: Path) -> MemorySessions:
    return MemorySessions(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def start(sessions: MemorySessions, clock: ManualClock) -> Start:
    def opened(**options: Any) -> SessionOpening:
        given = {"key": "k", "store": sessions, "clock": clock, "sleep": clock.sleep, **options}
        return session("report", **given)

    return opened


@dataclass(frozen=True)
class Draft:
    """A result with fields."""

    title: str
    words: int


# ------------------------------------------------------------------------------- timeouts


def test_a_function_that_is_too_slow_goes_on_without_the_caller(
    start: Start, sessions: MemorySessions
) -> None:
    go_on, ended = threading.Event(), threading.Event()

    def slow() -> str:
        go_on.wait(30)
        s.spend(30)
        ended.set()
        return "late"

    with start(budget=1000) as s:
        with pytest.raises(StepTimeout) as late:
            s.step("a", slow, timeout=0.001)
        assert (late.value.path, late.value.timeout_s) == ("a#1", 0.001)
        go_on.set()
        assert ended.wait(30)
        assert s.budget.tokens == 970
    assert steps_of(sessions, s.id) == []


def test_a_function_within_its_time_returns_its_result_or_its_exception(start: Start) -> None:
    def refuses() -> None:
        raise KeyError("mine")

    with start() as s:
        assert s.step("a", lambda: s.step("inner", lambda: 5), timeout=60) == 5
        with pytest.raises(KeyError, match="mine"):
            s.step("b", refuses, timeout=60)


def test_a_cancelled_operation_ends_the_wait_for_a_function(start: Start) -> None:
    token, go_on = CancelToken(), threading.Event()

    def stuck() -> None:
        token.cancel()
        go_on.wait(30)

    with start() as s, cancellable(token), pytest.raises(OperationCancelled):
        s.step("a", stuck, timeout=60)
    go_on.set()


def test_a_function_whose_step_has_ended_starts_no_further_step(
    start: Start, sessions: MemorySessions
) -> None:
    go_on, ended = threading.Event(), threading.Event()
    paid: list[str] = []

    def slow() -> None:
        try:
            go_on.wait(30)
            s.step("inner", paid.append, "late")
        except OperationCancelled:
            ended.set()
            raise

    with start() as s:
        with pytest.raises(StepTimeout):
            s.step("a", slow, timeout=0.001)
        go_on.set()
        assert ended.wait(30)
    assert (paid, steps_of(sessions, s.id)) == ([], [])


def test_a_run_that_was_given_up_does_not_record_its_step_twice(
    start: Start, sessions: MemorySessions
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    late: list[threading.Thread] = []
    ends: list[type[BaseException]] = []

    def slow() -> int:
        begun.set()
        go_on.wait(30)
        s.spend(7)
        return 1

    def in_a_thread() -> None:
        with pytest.raises(OperationCancelled) as cancelled:
            s.step("inner", slow)
        ends.append(cancelled.type)

    def outer() -> int:
        if late:
            return s.step("inner", lambda: 2)
        late.append(threading.Thread(target=copy_context().run, args=(in_a_thread,)))
        late[0].start()
        begun.wait(30)
        raise KeyError("the first attempt")

    with start(budget=100) as s:
        assert s.step("a", outer, retry=2) == 2
        go_on.set()
        late[0].join(30)
        assert s.budget.tokens == 93
    assert ends == [OperationCancelled]
    assert [one.path for one in steps_of(sessions, s.id)] == ["a#1/inner#1", "a#1"]
    with start() as s:
        assert s.step("a", outer) == 2


# ------------------------------------------------------------------------------- results


def test_a_result_is_read_back_as_its_annotation_says(start: Start) -> None:
    def write(title: str) -> Draft:
        return Draft(title, len(title))

    def write_all(titles: list[str]) -> list[Draft]:
        return [write(one) for one in titles]

    for _ in range(2):
        with start(returns=list[Draft]) as s:
            assert s.step("one", write, "abc") == Draft("abc", 3)
            drafts = s.step("all", write_all, ["a", "bc"])
            s.finish(drafts)
            assert s.result == drafts == [Draft("a", 1), Draft("bc", 2)]


def test_the_type_of_a_result_may_be_given(start: Start) -> None:
    for _ in range(2):
        with start() as s:
            found = s.step("one", lambda: Draft("a", 1), returns=Draft)
            assert found == Draft("a", 1)


def test_a_race_has_the_type_of_its_functions(start: Start) -> None:
    def write() -> Draft:
        return Draft("a", 1)

    for _ in range(2):
        with start() as s:
            assert s.race("r", write) == Draft("a", 1)


# ------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "options",
    [
        {"retry": 0},
        {"retry": Retry(2, wait_s=-1)},
        {"retry": Retry(2, factor=0.5)},
        {"timeout": 0},
        {"spend": -1},
        {"budget": Budget(usd=-0.1)},
    ],
)
def test_numbers_out_of_range_are_refused_before_the_call(
    start: Start, options: dict[str, Any]
) -> None:
    with start() as s, pytest.raises(ValueError, match=f"^{next(iter(options))}: expected"):
        s.step("a", pytest.fail, "it was called", **options)


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "a\n", "x" * 201])
def test_a_name_that_is_no_name_is_refused(start: Start, name: str) -> None:
    with start() as s, pytest.raises(InvalidStepName):
        s.step(name, pytest.fail, "it was called")


def test_a_map_of_none_at_once_is_refused(start: Start) -> None:
    with start() as s, pytest.raises(ValueError, match="concurrency"):
        s.map("m", pytest.fail, ["it was called"], concurrency=0)


def test_what_is_no_usage_is_not_charged(start: Start) -> None:
    with start() as s:
        with pytest.raises(TypeError, match="no usage"):
            s.spend(object())
        with pytest.raises(ValueError, match="0 tokens"):
            s.spend(-1)
        assert s.budget.tokens == 100_000


def test_a_key_is_only_known_within_a_step(start: Start) -> None:
    with start() as s, pytest.raises(LookupError):
        _ = s.idempotency_key


# ------------------------------------------------------------------------------- the decorator


def test_a_decorated_function_runs_once_for_its_arguments(start: Start) -> None:
    calls: list[Any] = []

    @start(key=None)
    def report(s: Session, topic: str, *, pages: int = 1) -> Draft:
        calls.append(topic)
        return Draft(topic, s.step("words", lambda: pages * 100))

    assert report("a") == report("a", pages=1) == Draft("a", 100)
    assert report("a", pages=2) == Draft("a", 200)
    assert calls == ["a", "a"]


def test_a_decorated_function_takes_its_key_from_its_arguments(start: Start) -> None:
    @start(key=lambda topic, pages: topic)
    def report(s: Session, topic: str, pages: int) -> int:
        return pages

    assert report("a", 1) == 1
    with pytest.raises(ArgumentsDiffer):
        report("a", 2)
    assert report("b", 2) == 2


def test_a_decorated_function_that_fails_goes_on_at_the_next_call(start: Start) -> None:
    calls: list[str] = []

    @start(key=None)
    def report(s: Session) -> str:
        s.step("a", lambda: calls.append("a"))
        if calls.count("tried") == 0:
            calls.append("tried")
            raise KeyError
        return "done"

    with pytest.raises(KeyError):
        report()
    assert report() == "done"
    assert calls == ["a", "tried"]


def test_a_function_decorated_without_a_name_has_its_own(
    sessions: MemorySessions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTFORGE_STORE", str(tmp_path / "there"))

    @session
    def weekly(s: Session, topic: str) -> str:
        return s.id

    found = weekly("x")
    assert found == weekly("x")
    assert (tmp_path / "there" / found / "session.yaml").is_file()


def test_arguments_that_can_not_be_compared_are_refused(start: Start) -> None:
    with pytest.raises(TypeError, match="can't be compared"), start(inputs=object()):
        raise AssertionError


def test_a_function_as_key_needs_a_decorator(start: Start) -> None:
    with pytest.raises(TypeError, match="decorator"), start(key=str):
        raise AssertionError


# ------------------------------------------------------------------------------- the file


def test_the_file_is_written_at_most_every_second_while_steps_are_recorded(
    start: Start, sessions: MemorySessions, clock: ManualClock
) -> None:
    def revision() -> int:
        found = sessions.load(s.id)
        assert found is not None
        return found.revision

    with start() as s:
        first = revision()
        for _ in range(5):
            s.step("a", lambda: None)
        assert revision() == first
        clock.now += timedelta(seconds=1)
        s.step("a", lambda: None)
        s.step("a", lambda: None)
        assert revision() == first + 1
    assert revision() == first + 2


class FullDisk(MemorySessions):
    """A store that takes no more saves."""

    full = False

    def save(self, *args: Any, **kwargs: Any) -> Any:
        if self.full:
            raise WriteError(path=Path("there"), operation="save", cause=OSError(28, "full"))
        return super().save(*args, **kwargs)


def test_a_file_that_can_not_be_written_does_not_hide_the_programs_exception(
    start: Start, tmp_path: Path
) -> None:
    sessions = FullDisk(tmp_path)

    def program() -> None:
        with start(store=sessions) as s:
            sessions.full = True
            s.step("a", lambda: 1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        program()
    assert "its log has all" in raised.value.__notes__[0]
    with pytest.raises(WriteError), start(store=sessions):
        pass


def test_a_second_process_waits_for_the_first_as_long_as_it_likes(start: Start, base: Path) -> None:
    found: list[Any] = []

    def second() -> None:
        with start(store=SessionStore(base), wait_s=60) as s:
            found.append(s.result if s.finished else s.step("a", lambda: "again"))

    for end in (False, True):
        with start(store=SessionStore(base)) as s:
            waiting = threading.Thread(target=second)
            waiting.start()
            s.step("a", lambda: "first")
            if end:
                s.finish("the end")
        waiting.join(60)
    assert found == ["first", "the end"]


def test_a_session_that_came_with_a_repository_is_not_believed(
    start: Start, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(store=SessionStore(base)) as s:
        s.step("a", lambda: "a stranger's")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another person"))
    with pytest.raises(SessionNotAdopted), start(store=SessionStore(base)):
        raise AssertionError


# ------------------------------------------------------------------------------- the person


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person whose day has 100 tokens."""
    folder = tmp_path / "config" / "agentforge"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[budget]\nday_tokens = 100\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("limited")
def test_the_persons_limits_count_over_all_sessions(start: Start) -> None:
    with start(key="one") as s:
        s.step("a", lambda: s.spend(60), spend=60)
        with s.session("part", budget=40) as part:
            part.step("b", lambda: part.spend(20), spend=20)
            with pytest.raises(LimitReached):
                part.step("c", pytest.fail, "it was called", spend=21)
            part.finish()
    with start(key="two") as s:
        with pytest.raises(LimitReached) as reached:
            s.step("a", pytest.fail, "it was called", spend=30)
        assert "80 tokens of 100 tokens for today" in str(reached.value)
        assert "--of day --extend" in reached.value.extend
        s.step("b", lambda: s.spend(20), spend=20)
        with pytest.raises(LimitReached):
            s.step("c", pytest.fail, "it was called", spend=1)
        s.step("free", lambda: 1)


@pytest.mark.usefixtures("limited")
def test_what_runs_side_by_side_counts_for_the_persons_limits(start: Start) -> None:
    with start() as s:

        def outer() -> None:
            s.step("inner", pytest.fail, "it was called", spend=41)

        with pytest.raises(LimitReached):
            s.step("outer", outer, spend=60)


def test_answers_of_a_person_are_recorded(start: Start) -> None:
    answers = ScriptedAnswers({"Publish?": "Yes"})
    with start(channel=answers) as s:
        assert s.ask("Publish?", options=["Yes", "No"]) == "Yes"
    with start(channel=answers, patience_s=0) as s:
        assert s.ask("Publish?", options=["Yes", "No"]) == "Yes"
        with pytest.raises(StillWaiting):
            s.ask("Sure?", options=["Yes", "No"])


# ------------------------------------------------------------------------------- what is shown


def test_a_notebook_shows_the_state_the_budget_and_the_steps(start: Start) -> None:
    with start(budget=100) as s:
        s.step("<b>&", lambda: s.spend(40, usd=1.5))
        shown = s._repr_html_()
        assert f"{s.id}: active, 60 of 100 tokens left, $1.50 spent" in shown
        assert "<td>&lt;b&gt;&amp;#1</td><td>ok</td><td>40</td>" in shown
        s.finish()
        assert "completed" in s._repr_html_()


def test_a_finished_session_names_the_step_that_it_has_not(start: Start) -> None:
    with start() as s:
        s.finish()
    with start() as s, pytest.raises(SessionFinished, match="'a#1'"):
        s.step("a", lambda: 1)


def test_the_package_loads_nothing_of_it_before_the_first_use() -> None:
    code = (
        "import sys, agentforge_sessions as one; "
        "assert not any('durable' in name for name in sys.modules); "
        "one.session; assert 'asyncio' not in sys.modules, 'asyncio'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
