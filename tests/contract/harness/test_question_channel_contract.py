"""One suite for every channel through which a manager may ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import define

from agentforge_sessions.harness import PersonAnswer, QuestionChannel
from agentforge_sessions.questions import QuestionSessions, UserAnswer
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.support.channels import COLOUR, MemoryChannel
from tests.support.questions import build


@define
class Line:
    """A channel, and the person at its end."""

    channel: QuestionChannel
    answer: Callable[[str, str], object]


@pytest.fixture(params=["memory", "question sessions"])
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Line:
    if request.param == "memory":
        memory = MemoryChannel()
        return Line(memory, memory.answer)
    sessions = build(tmp_path / "questions")

    def answer(question_id: str, label: str) -> None:
        given = UserAnswer(question_index=0, selected_option=label)
        QuestionSessions(sessions.base_dir).save_session_answers(question_id, [given])

    return Line(QuestionSessionChannel(sessions), answer)


def test_a_channel_is_one(line: Line) -> None:
    assert isinstance(line.channel, QuestionChannel)


def test_a_key_names_one_id_for_good_and_shares_it_with_no_other(line: Line) -> None:
    first = line.channel.id_for("session/one")
    line.channel.put(first, [COLOUR], call_id=None)
    assert line.channel.id_for("session/one") == first
    assert line.channel.id_for("session/two") != first
    assert line.channel.id_for("other/one") != first


def test_what_can_not_be_asked_is_refused_before_it_is_put(line: Line) -> None:
    with pytest.raises(ValueError, match=r"."):
        line.channel.check([])
    line.channel.check([COLOUR])


def test_a_reply_is_found_by_its_id(line: Line) -> None:
    one = line.channel.id_for("session/one")
    line.channel.put(one, [COLOUR], call_id="session")
    assert line.channel.wait(one, 0.0) is None
    line.answer(one, "blue")
    reply = line.channel.wait(one, None)
    assert reply is not None
    assert (reply.question_id, reply.outcome) == (one, "answered")
    assert reply.answers == (PersonAnswer(question_index=0, selected=("blue",)),)
    assert "blue" in reply.text
    assert line.channel.wait(one, 0.0) == reply


def test_putting_twice_puts_once(line: Line) -> None:
    one = line.channel.id_for("session/one")
    line.channel.put(one, [COLOUR], call_id=None)
    line.answer(one, "red")
    line.channel.put(one, [COLOUR], call_id=None)
    reply = line.channel.wait(one, 0.0)
    assert reply is not None
    assert reply.answers[0].selected == ("red",)


def test_a_reply_wakes_who_waits(line: Line) -> None:
    one = line.channel.id_for("session/one")
    line.channel.put(one, [COLOUR], call_id=None)
    person = threading.Timer(0.05, line.answer, [one, "red"])
    person.start()
    assert line.channel.wait(one, 60) is not None
    person.join()


def test_what_was_never_put_is_not_there(line: Line) -> None:
    with pytest.raises(LookupError):
        line.channel.wait(line.channel.id_for("session/one"), 0.0)
