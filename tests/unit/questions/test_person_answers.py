"""Questions that a program brings to the person itself, and the answers that it brings back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentforge_sessions.harness import Question, answers_in_words
from agentforge_sessions.questions import InvalidAnswers, QuestionSessions, SessionNotFound
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows.agents.port import AgentOption, AgentQuestion

SIZE = AgentQuestion(
    prompt="How large?",
    title="Size",
    options=[AgentOption(label="Small", description="Fits."), AgentOption(label="Large")],
)
COLOURS = AgentQuestion(
    prompt="Which colours?",
    title="Colours",
    options=[AgentOption(label="Red"), AgentOption(label="Blue"), AgentOption(label="Red, blue")],
    multi_select=True,
)
NAME = AgentQuestion(prompt="What is it called?", title="Name")
ASKED = (SIZE, COLOURS, NAME)


@pytest.fixture
def person(tmp_path: Path) -> QuestionSessionChannel:
    return QuestionSessionChannel(tmp_path / "questions")


def put(person: QuestionSessionChannel, questions: Sequence[Question]) -> str:
    asked = person.id_for("k")
    person.check(questions)
    person.put(asked, questions, call_id=None)
    return asked


def words(person: QuestionSessionChannel, asked: str) -> tuple[str, ...]:
    reply = person.wait(asked, 0)
    assert reply is not None
    return answers_in_words(reply, len(person.sessions.get(asked).questions))


def test_questions_wait_as_they_were_asked(person: QuestionSessionChannel) -> None:
    asked = put(person, ASKED)
    assert person.waiting(asked) == ASKED


def test_answers_come_back_in_their_order(person: QuestionSessionChannel) -> None:
    asked = put(person, ASKED)
    assert person.answer(asked, ["Large", ["Blue", "Red"], "Rover"]) is True
    assert person.waiting(asked) == ()
    assert words(person, asked) == ("Large", "Blue, Red", "Rover")


@pytest.mark.parametrize(
    ("answer", "option", "options", "text"),
    [
        ("Small", "Small", None, None),
        ("about this size", None, None, "about this size"),
        (["Small", "or a bit more"], "Small", None, "or a bit more"),
        ("small", None, None, "small"),
    ],
)
def test_label_chooses_and_other_words_are_the_persons_own(
    person: QuestionSessionChannel,
    answer: str | list[str],
    option: str | None,
    options: tuple[str, ...] | None,
    text: str | None,
) -> None:
    asked = put(person, [SIZE])
    person.answer(asked, [answer])
    kept = QuestionSessions(person.base_dir).get(asked).answers
    assert kept is not None
    (one,) = kept.answers
    assert (one.selected_option, one.selected_options, one.custom_text) == (option, options, text)


def test_label_with_a_comma_is_one_label(person: QuestionSessionChannel) -> None:
    asked = put(person, [COLOURS])
    person.answer(asked, ["Red, blue"])
    kept = QuestionSessions(person.base_dir).get(asked).answers
    assert kept is not None
    assert kept.answers[0].selected_options == ("Red, blue",)


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([], "answers: expected 3, one for each question; got 0"),
        (["Small"], "answers: expected 3, one for each question; got 1"),
        ("abc", "answers: expected a list, got str"),
        ({"Size": "Small"}, "answers: expected a list, got dict"),
        (None, "answers: expected a list, got NoneType"),
        (["Small", [], "x"], r"answers\[1\]: expected a text"),
        (["Small", ["Red", ""], "x"], r"answers\[1\]: expected a text"),
        (["Small", 7, "  "], r"answers\[1\]: .*answers\[2\]: expected a text"),
        ([["Small", "Large"], "Red", "x"], "Question 0 takes one option, and 2 were selected"),
        (["Small", ["Red", "Red"], "x"], "selects an option more than once"),
        (["Small", "Red", "\ud800"], "UTF-8"),
    ],
)
def test_answers_that_do_not_fit_are_told_and_the_questions_still_wait(
    person: QuestionSessionChannel, answers: object, fault: str
) -> None:
    asked = put(person, ASKED)
    with pytest.raises(InvalidAnswers, match=fault):
        person.answer(asked, answers)  # type: ignore[arg-type]
    assert person.waiting(asked) == ASKED
    assert person.wait(asked, 0) is None


def test_what_was_answered_first_stands(person: QuestionSessionChannel) -> None:
    asked = put(person, [NAME])
    assert person.answer(asked, ["Rover"]) is True
    assert person.answer(asked, ["Rex"]) is False
    assert words(person, asked) == ("Rover",)


def test_questions_that_the_person_rejected_wait_no_more(person: QuestionSessionChannel) -> None:
    asked = put(person, [NAME])
    QuestionSessions(person.base_dir).reject_session(asked, "no time")
    assert person.waiting(asked) == ()
    assert person.answer(asked, ["Rover"]) is False
    assert words(person, asked) == ("(not answered: no time)",)


def test_questions_that_are_gone_wait_no_more_and_take_no_answer(
    person: QuestionSessionChannel,
) -> None:
    asked = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    assert person.waiting(asked) == ()
    with pytest.raises(SessionNotFound):
        person.answer(asked, ["Rover"])
