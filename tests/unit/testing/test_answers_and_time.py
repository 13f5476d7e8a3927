"""The person and the time of a test: they answer and pass without anybody's waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.question import Question
from agentforge_sessions.harness import (
    PersonAnswer,
    QuestionChannel,
    QuestionWaits,
    SessionManager,
)
from agentforge_sessions.testing import ManualClock, MemorySessions, ScriptedAnswers

PUBLISH = Question(prompt="Publish?", title="End", options=("Yes", "No"))
WHERE = Question(prompt="Where?", title="Place", options=("Here", "There"))


@pytest.fixture
def answers() -> ScriptedAnswers:
    return ScriptedAnswers({"Publish?": "Yes"})


@pytest.fixture
def manager(base: Path, answers: ScriptedAnswers, clock: ManualClock) -> SessionManager:
    manager = SessionManager(MemorySessions(base), channel=answers, clock=clock)
    manager.create()
    return manager


def test_it_is_a_channel(answers: ScriptedAnswers) -> None:
    channel: QuestionChannel = answers
    assert isinstance(channel, QuestionChannel)


def test_an_answer_given_beforehand_is_found(
    manager: SessionManager, answers: ScriptedAnswers
) -> None:
    answers.answer("Where?", "There", text="by the lake")
    reply = manager.ask([PUBLISH, WHERE])
    assert reply.answers == (
        PersonAnswer(question_index=0, selected=("Yes",)),
        PersonAnswer(question_index=1, selected=("There",), text="by the lake"),
    )
    assert reply.text == "Yes\nThere by the lake"
    assert answers.asked == ["Publish?", "Where?"]


def test_a_question_without_an_answer_ends_the_wait_at_once(manager: SessionManager) -> None:
    with pytest.raises(QuestionWaits):
        manager.ask([WHERE])


def test_an_answer_given_later_is_found_by_the_next_worker(
    manager: SessionManager, answers: ScriptedAnswers
) -> None:
    with pytest.raises(QuestionWaits):
        manager.ask([WHERE])
    answers.answer("Where?", "Here")
    assert manager.ask([WHERE]).text == "Here"
    assert answers.asked == ["Where?"]


def test_a_person_may_decline(manager: SessionManager, answers: ScriptedAnswers) -> None:
    answers.reject("Where?", "no place is right")
    reply = manager.ask([WHERE])
    assert (reply.outcome, reply.reason) == ("rejected", "no place is right")


def test_a_withdrawn_question_has_ended(answers: ScriptedAnswers) -> None:
    answers.put("q-1", [WHERE], call_id=None)
    answers.withdraw("q-1", "nobody needs it")
    answers.answer("Where?", "Here")
    reply = answers.wait("q-1", None)
    assert reply is not None
    assert (reply.question_id, reply.outcome) == ("q-1", "abandoned")


def test_a_wait_for_what_never_comes_ends() -> None:
    clock = ManualClock()
    for _ in range(10_000):
        clock.sleep(1)
    with pytest.raises(AssertionError, match="patience_s"):
        clock.sleep(1)


def test_a_sleep_moves_the_clock_by_itself_alone() -> None:
    clock = ManualClock()
    before, started = clock(), clock.monotonic()
    clock.sleep(3 * 86_400)
    clock.advance(0.5)
    assert (clock() - before).total_seconds() == 259_200.5
    assert clock.monotonic() - started == 259_200.5
    assert clock.pauses == [259_200]
