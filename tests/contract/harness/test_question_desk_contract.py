"""One suite for every desk that a manager may put questions on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import define

from agentforge_sessions.adapters.question_channel import QuestionSessionChannel
from agentforge_sessions.harness import PersonAnswer, QuestionChannel
from agentforge_sessions.questions import QuestionSessions, UserAnswer
from tests.support.desks import COLOUR, MemoryDesk
from tests.support.questions import build


@define
class Table:
    """A desk, and the person at it."""

    desk: QuestionChannel
    answer: Callable[[str, str], object]


@pytest.fixture(params=["memory", "question sessions"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "memory":
        memory = MemoryDesk()
        return Table(memory, memory.answer)
    sessions = build(tmp_path / "questions")

    def answer(question_id: str, label: str) -> None:
        given = UserAnswer(question_index=0, selected_option=label)
        QuestionSessions(sessions.base_dir).save_session_answers(question_id, [given])

    return Table(QuestionSessionChannel(sessions), answer)


def test_a_desk_is_one(table: Table) -> None:
    assert isinstance(table.desk, QuestionChannel)


def test_a_key_names_one_id_for_good_and_shares_it_with_no_other(table: Table) -> None:
    first = table.desk.id_for("session/one")
    table.desk.put(first, [COLOUR], call_id=None)
    assert table.desk.id_for("session/one") == first
    assert table.desk.id_for("session/two") != first
    assert table.desk.id_for("other/one") != first


def test_what_can_not_be_asked_is_refused_before_it_is_put(table: Table) -> None:
    with pytest.raises(ValueError, match=r"."):
        table.desk.check([])
    table.desk.check([COLOUR])


def test_a_reply_is_found_by_its_id(table: Table) -> None:
    one = table.desk.id_for("session/one")
    table.desk.put(one, [COLOUR], call_id="session")
    assert table.desk.wait(one, 0.0) is None
    table.answer(one, "blue")
    reply = table.desk.wait(one, None)
    assert reply is not None
    assert (reply.question_id, reply.outcome) == (one, "answered")
    assert reply.answers == (PersonAnswer(question_index=0, selected=("blue",)),)
    assert "blue" in reply.text
    assert table.desk.wait(one, 0.0) == reply


def test_putting_twice_puts_once(table: Table) -> None:
    one = table.desk.id_for("session/one")
    table.desk.put(one, [COLOUR], call_id=None)
    table.answer(one, "red")
    table.desk.put(one, [COLOUR], call_id=None)
    reply = table.desk.wait(one, 0.0)
    assert reply is not None
    assert reply.answers[0].selected == ("red",)


def test_a_reply_wakes_who_waits(table: Table) -> None:
    one = table.desk.id_for("session/one")
    table.desk.put(one, [COLOUR], call_id=None)
    person = threading.Timer(0.05, table.answer, [one, "red"])
    person.start()
    assert table.desk.wait(one, 60) is not None
    person.join()


def test_what_was_never_put_is_not_there(table: Table) -> None:
    with pytest.raises(LookupError):
        table.desk.wait(table.desk.id_for("session/one"), 0.0)
