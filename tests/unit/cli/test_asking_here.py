"""A run that waits at a terminal asks right there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.base.question import Option
from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.entrypoints.cli.running.asking_here import TerminalPerson
from agentforge_sessions.harness import Question
from agentforge_sessions.wiring.phases.question_channel import (
    QuestionSessionChannel,
    agents_questions,
)

QUESTIONS = (
    Question(
        prompt="Which one?",
        title="Which",
        options=[Option(label="This"), Option(label="That")],
    ),
    Question(prompt="And why?", title="Why", options=[]),
)


class Terminal:
    """A terminal of our own, and a channel that asks at it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.person, self.end = os.openpty()
        self.asides = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.channel = TerminalPerson(
            sessions=agents_questions(directory),
            notify=None,
            output=Output(),
            aside=self.aside,
            terminal=self.end,
        )
        self.question_id = self.channel.id_for("session/1.1")
        self.channel.put(self.question_id, QUESTIONS, call_id=None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.asides += 1
        self.meanwhile()
        yield

    def types(self, text: str) -> None:
        os.write(self.person, text.encode())


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    one = Terminal(tmp_path / "questions")
    yield one
    os.close(one.person)
    os.close(one.end)


def test_person_at_the_terminal_is_asked_and_answers(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.types("9\n2\nBecause it is there.\n")
    reply = terminal.channel.wait(terminal.question_id, 600)
    assert reply is not None
    assert reply.outcome == "answered"
    assert reply.answers[0].selected == ("That",)
    assert reply.answers[1].text == "Because it is there."
    told = capsys.readouterr()
    assert "1. Which one?\n   1) This\n   2) That\n" in told.out
    assert "That is none of them" in told.err
    assert terminal.asides == 1


def test_answer_from_elsewhere_that_was_first_stands(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    def somebody_else() -> None:
        assert QuestionSessionChannel(terminal.directory).answer(
            terminal.question_id, ["This", "Asked by telephone."]
        )

    terminal.meanwhile = somebody_else
    reply = terminal.channel.wait(terminal.question_id, 600)
    assert reply is not None
    assert reply.answers[0].selected == ("This",)
    assert "It was answered elsewhere." in capsys.readouterr().err


def test_end_of_the_input_asks_nobody_here_and_the_question_stays(terminal: Terminal) -> None:
    terminal.types("\x04")
    assert terminal.channel.wait(terminal.question_id, 0.01) is None
    assert len(terminal.channel.waiting(terminal.question_id)) == 2


def test_nobody_is_asked_where_nobody_waits(terminal: Terminal) -> None:
    assert terminal.channel.wait(terminal.question_id, 0) is None
    assert terminal.asides == 0
