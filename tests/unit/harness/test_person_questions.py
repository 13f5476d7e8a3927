"""A session asks a person: recorded before it is seen, never asked twice, found by the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.question import InvalidQuestions
from agentforge_sessions.harness import (
    InvalidStateTransition,
    PersonAnswer,
    Question,
    QuestionAnswered,
    QuestionWaits,
    SessionConflict,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.errors import NoQuestionChannel
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.questions.errors import TooManySessions
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.support.channels import COLOUR, MemoryChannel
from tests.support.clock import FakeClock
from tests.support.executors import FakeExecutor
from tests.support.questions import build


def lead(store: SessionStore, channel: object, clock: FakeClock) -> SessionManager:
    return SessionManager(store, channel=channel, clock=clock)  # type: ignore[arg-type]


@pytest.fixture
def channel() -> MemoryChannel:
    return MemoryChannel()


@pytest.fixture
def manager(store: SessionStore, channel: MemoryChannel, clock: FakeClock) -> SessionManager:
    manager = lead(store, channel, clock)
    manager.create("spec", "clarify")
    return manager


def actions(manager: SessionManager) -> list[str]:
    assert manager.current_session is not None
    return [entry.action for entry in manager.current_session.history]


def another(manager: SessionManager, channel: MemoryChannel, clock: FakeClock) -> SessionManager:
    """Another worker, that loaded the session from disk."""
    assert manager.current_session is not None
    other = lead(manager.store, channel, clock)
    assert other.load(manager.current_session.session_id) is not None
    return other


def while_it_waits(channel: MemoryChannel, *acts: Callable[[], object]) -> None:
    """Do something when an asker waits, once."""

    def before_wait() -> None:
        channel.before_wait = lambda: None
        for act in acts:
            act()

    channel.before_wait = before_wait


def test_the_id_is_in_the_history_on_disk_before_the_person_sees_the_question(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    seen = []

    def look(question_id: str) -> None:
        entry = another(manager, channel, clock).current_session.history[-1]  # type: ignore[union-attr]
        seen.append((entry.action, question_id in (entry.details or "")))

    channel.before_put = look
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], timeout_s=0)
    assert seen == [("question_asked", True)]


def test_an_answer_is_returned_and_recorded(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    while_it_waits(channel, lambda: channel.answer("q-1", "blue"))
    reply = manager.ask([COLOUR])
    assert reply.answers[0].selected == ("blue",)
    assert actions(manager) == ["session_created", "question_asked", "question_answered"]
    assert manager.current_session is not None
    assert manager.current_session.history[-1].details == (
        'question q-1\nanswers: [[0, ["blue"], null]]\nblue'
    )


def test_a_worker_that_died_left_the_question_and_the_next_one_finds_the_answer(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    with pytest.raises(QuestionWaits) as caught:
        manager.ask([COLOUR], timeout_s=0)
    assert caught.value.question_id == "q-1"
    channel.answer("q-1", "red")
    nxt = another(manager, channel, clock)
    assert nxt.ask([COLOUR]).answers[0].selected == ("red",)
    assert channel.puts == 1
    assert actions(nxt).count("question_asked") == 1
    third = another(nxt, channel, clock)
    assert third.ask([COLOUR]).text == "red"
    assert actions(third) == actions(nxt)


def test_a_worker_that_died_before_the_question_was_put_left_its_id(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    class Killed(BaseException):
        pass

    def die(_: str) -> None:
        raise Killed

    channel.before_put = die
    with pytest.raises(Killed):
        manager.ask([COLOUR])
    channel.before_put = lambda _: None
    nxt = another(manager, channel, clock)
    with pytest.raises(QuestionWaits):
        nxt.ask([COLOUR], timeout_s=0)
    assert list(channel.questions) == ["q-1"]
    assert actions(nxt) == ["session_created", "question_asked"]


def test_a_session_may_be_paused_while_it_waits(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], pause=True, timeout_s=0)
    assert manager.current_session is not None
    assert manager.current_session.state is SessionState.PAUSED
    nxt = another(manager, channel, clock)
    channel.answer("q-1", "red")
    assert nxt.ask([COLOUR], pause=True).outcome == "answered"
    assert nxt.current_session is not None
    assert nxt.current_session.state is SessionState.ACTIVE
    assert actions(nxt)[-2:] == ["question_answered", "session_resumed"]


def test_a_session_that_somebody_else_paused_stays_paused(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    operator = another(manager, channel, clock)
    while_it_waits(
        channel,
        operator.reload,
        lambda: operator.pause("lunch"),
        lambda: channel.answer("q-1", "red"),
    )
    assert manager.ask([COLOUR]).outcome == "answered"
    assert manager.current_session is not None
    assert manager.current_session.state is SessionState.PAUSED
    assert actions(manager)[-2:] == ["session_paused", "question_answered"]
    assert manager.ask([COLOUR]).outcome == "answered"  # it is known
    with pytest.raises(InvalidStateTransition):
        manager.ask([COLOUR], key="again")


def test_asking_the_same_again_takes_another_key(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    channel.answer("q-1", "red")
    channel.answer("q-2", "blue")
    assert manager.ask([COLOUR]).text == "red"
    assert manager.ask([COLOUR]).text == "red"
    assert manager.ask([COLOUR], key="once more").text == "blue"
    assert manager.ask([COLOUR], key="once more").text == "blue"
    assert channel.puts == 2
    for bad in ("", " x", "a\nb", "x" * 201):
        with pytest.raises(ValueError, match="key"):
            manager.ask([COLOUR], key=bad)


def test_another_phase_or_attempt_asks_anew(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    for number, act in enumerate(
        [lambda: None, lambda: manager.retry_phase("x"), lambda: manager.advance_phase("draft")], 1
    ):
        act()
        channel.answer(f"q-{number}", "red")
        assert manager.ask([COLOUR]).question_id == f"q-{number}"


def test_a_reply_is_kept_when_its_question_is_long_gone(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    channel.answer("q-1", "red")
    manager.ask([COLOUR])
    channel.questions.clear()
    reply = another(manager, channel, clock).ask([COLOUR])
    assert (reply.outcome, reply.text) == ("answered", "red")
    assert reply.answers == (PersonAnswer(question_index=0, selected=("red",)),)


def test_what_can_not_be_asked_leaves_nothing(manager: SessionManager) -> None:
    with pytest.raises(ValueError, match="no questions"):
        manager.ask([])
    assert actions(manager) == ["session_created"]


def test_what_else_was_saved_just_before_is_kept_and_the_question_asked(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    another(manager, channel, clock).extend_budget(1000)
    channel.answer("q-1", "red")
    assert manager.ask([COLOUR]).text == "red"
    assert actions(manager)[1:] == ["budget_extended", "question_asked", "question_answered"]


def test_nobody_is_asked_when_somebody_else_led_the_session_on_first(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    another(manager, channel, clock).advance_phase("draft")
    with pytest.raises(SessionConflict):
        manager.ask([COLOUR])
    assert channel.puts == 0
    assert actions(manager) == ["session_created"]


def test_nobody_is_asked_when_somebody_paused_the_session_first(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    another(manager, channel, clock).pause("lunch")
    with pytest.raises(InvalidStateTransition):
        manager.ask([COLOUR])
    assert channel.puts == 0


def test_two_workers_that_ask_the_same_ask_once(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    faster = another(manager, channel, clock)
    for one in (faster, manager):
        with pytest.raises(QuestionWaits):
            one.ask([COLOUR], timeout_s=0)
    assert channel.puts == 1
    assert actions(manager).count("question_asked") == 1


def test_reply_that_another_worker_recorded_first_is_recorded_once(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    other = another(manager, channel, clock)

    while_it_waits(
        channel, lambda: channel.answer("q-1", "red"), other.reload, lambda: other.ask([COLOUR])
    )
    assert manager.ask([COLOUR]).text == "red"
    assert actions(manager) == ["session_created", "question_asked", "question_answered"]


def test_reply_is_kept_for_a_session_that_somebody_led_on_meanwhile_and_this_worker_stops(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    other = another(manager, channel, clock)

    while_it_waits(
        channel,
        other.reload,
        lambda: other.advance_phase("draft"),
        lambda: channel.answer("q-1", "red"),
    )
    with pytest.raises(SessionConflict):
        manager.ask([COLOUR])
    with pytest.raises(SessionConflict):
        manager.add_history("from the phase that is over")
    other.reload()
    assert actions(other)[-2:] == ["phase_advanced", "question_answered"]


def test_worker_that_waited_for_a_session_that_ended_meanwhile_stops(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    other = another(manager, channel, clock)

    while_it_waits(
        channel, other.reload, lambda: other.abort("enough"), lambda: channel.answer("q-1", "red")
    )
    with pytest.raises(SessionConflict):
        manager.ask([COLOUR])
    other.reload()
    assert actions(other)[-1] == "session_aborted"


def test_phase_that_asked_while_somebody_led_the_session_on_is_not_recorded(
    store: SessionStore, channel: MemoryChannel, clock: FakeClock
) -> None:
    def lead_on() -> None:
        another(manager, channel, clock).advance_phase("draft")
        channel.answer("q-1", "red")

    def ask() -> None:
        with pytest.raises(SessionConflict):  # code in the sandbox may catch it and go on
            manager.ask([COLOUR])

    executor = FakeExecutor(during=ask)
    manager = SessionManager(store, executor=executor, channel=channel, clock=clock)
    manager.create("spec", "clarify")
    while_it_waits(channel, lead_on)
    with pytest.raises(SessionConflict):
        manager.run_phase("pass")
    manager.reload()
    assert "phase_succeeded" not in actions(manager)


def test_question_that_somebody_takes_away_is_abandoned_and_not_asked_again(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    channel.after_put = channel.questions.clear
    reply = manager.ask([COLOUR])
    assert (reply.outcome, actions(manager)[-1]) == ("abandoned", "question_abandoned")
    assert "it is gone" in (reply.reason or "")
    assert another(manager, channel, clock).ask([COLOUR]) == reply
    assert channel.puts == 1


def test_who_waits_is_told_the_id_when_the_person_can_see_the_question(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    told = []
    channel.answer("q-1", "red")
    manager.ask([COLOUR], on_waiting=lambda asked: told.append((asked, asked in channel.questions)))
    manager.ask([COLOUR], on_waiting=lambda asked: told.append((asked, False)))
    assert told == [("q-1", True)]


def test_nobody_waits_for_what_was_answered_before_the_question_was_taken_up(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    told: list[str] = []
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], pause=True, timeout_s=0, on_waiting=told.append)
    channel.answer("q-1", "red")
    reply = another(manager, channel, clock).ask([COLOUR], pause=True, on_waiting=told.append)
    assert (reply.outcome, told) == ("answered", ["q-1"])


def test_answers_come_back_from_the_history_to_the_letter(
    manager: SessionManager, channel: MemoryChannel, clock: FakeClock
) -> None:
    answers = (
        PersonAnswer(question_index=1, selected=("a", 'b"]'), text="two\nlines, key x"),
        PersonAnswer(question_index=0, text="answers: [[0]]"),
    )
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR, COLOUR], timeout_s=0)
    channel.replies["q-1"] = QuestionAnswered(
        question_id="q-1", text="answers: []\nreason: none", answers=answers
    )
    manager.ask([COLOUR, COLOUR])
    given = channel.replies.pop("q-1")
    channel.questions.clear()
    assert another(manager, channel, clock).ask([COLOUR, COLOUR]) == given


def test_key_that_ends_like_another_names_its_own_question(
    manager: SessionManager, channel: MemoryChannel
) -> None:
    channel.answer("q-1", "red")
    channel.answer("q-2", "blue")
    assert manager.ask([COLOUR], key="a, key b").text == "red"
    assert manager.ask([COLOUR], key="b").text == "blue"


def test_without_a_channel_nobody_can_be_asked(store: SessionStore) -> None:
    manager = SessionManager(store)
    manager.create()
    with pytest.raises(NoQuestionChannel):
        manager.ask([COLOUR])


# ------------------------------------------------------------------------ on question sessions


def test_a_question_that_could_not_be_put_is_told_and_can_be_asked_again(
    store: SessionStore, clock: FakeClock, tmp_path: Path
) -> None:
    sessions = build(tmp_path / "q", max_sessions=1)
    manager = lead(store, QuestionSessionChannel(sessions), clock)
    manager.create("spec", "clarify")
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], key="one", timeout_s=0)
    with pytest.raises(TooManySessions):
        manager.ask([COLOUR], key="two", pause=True)
    assert manager.current_session is not None
    assert manager.current_session.state is SessionState.ACTIVE
    assert actions(manager)[-3:] == ["session_paused", "question_not_asked", "session_resumed"]
    sessions.reject_session(sessions.pending()[0].session_id, "enough\nof it")
    reply = manager.ask([COLOUR], key="one")
    assert (reply.outcome, reply.reason) == ("rejected", "enough\nof it")
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], key="two", timeout_s=0)
    assert len(sessions.pending()) == 1
    with pytest.raises(InvalidQuestions):
        manager.ask([Question(prompt="", title="", options=["a"])])


def test_the_built_manager_can_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manager = build_manager(tmp_path / "sessions")
    manager.create("spec", "clarify")
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], timeout_s=0)
    found = QuestionSessions(".agentforge/questions").pending()
    assert [one.questions[0].prompt for one in found] == ["Which colour?"]
    assert found[0].call_id == manager.current_session.session_id  # type: ignore[union-attr]


def test_asking_within_a_phase_does_not_stand_in_its_way(
    store: SessionStore, channel: MemoryChannel, clock: FakeClock
) -> None:
    executor = FakeExecutor(during=lambda: manager.ask([COLOUR]))
    manager = SessionManager(store, executor=executor, channel=channel, clock=clock)
    manager.create("spec", "clarify")
    channel.answer("q-1", "red")
    assert manager.run_phase("pass").success
    assert actions(manager)[-3:] == ["question_asked", "question_answered", "phase_succeeded"]
