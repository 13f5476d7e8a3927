"""Sessions that earlier versions left on disk while a person was asked: nothing is asked again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentforge_sessions.adapters.question_channel import QuestionSessionChannel
from agentforge_sessions.harness import (
    PersonAnswer,
    QuestionWaits,
    SessionHistory,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.workflows import RunOutcome
from agentforge_sessions.workflows.agents import AgentUnavailable
from tests.support.agents import GOOD, AgentGround, ScriptedAgent
from tests.support.channels import COLOUR

RECORDED = Path(__file__).resolve().parents[2] / "recorded" / "earlier_questions"
WAITING = "1da7a45e-ca3d-44e1-af57-bc7e2b6e1119"
APPROVAL = "491698e7-b41d-4c92-83b4-83a6f18d7ce3"
ANSWERED_BY_HAND = "cfba3507-ef0f-4cbf-900b-f2dcd7eff5c1"
WAITING_BY_HAND = "5c34e292-67e0-41cb-9981-31eb5cde92ac"


class Left:
    """A copy of a recorded directory, and a worker of today that comes upon it."""

    def __init__(self, name: str, place: Path) -> None:
        shutil.copytree(RECORDED / name, place)
        self.questions = place / "questions"
        self.person = QuestionSessionChannel(self.questions)
        self.ground = AgentGround(
            place / "sessions", agent=ScriptedAgent(script=GOOD), person=self.person
        )

    def resume(self) -> RunOutcome:
        outcome: RunOutcome = self.ground.resume()
        return outcome

    def asked(self) -> list[str]:
        return [one.session_id for one in QuestionSessions(self.questions).list_sessions()]

    def count(self, *actions: str) -> int:
        return sum(1 for one in self.ground.session.history if one.action in actions)


def test_questions_that_waited_are_answered_and_asked_of_nobody_again(tmp_path: Path) -> None:
    left = Left("waits", tmp_path / "left")
    assert left.ground.worker().outcome(left.ground.session_id).waiting_for == WAITING
    outcome = left.resume()
    assert (outcome.state, outcome.waiting_for) == (SessionState.PAUSED, WAITING)
    left.person.answer(WAITING, ["any", "very"])
    outcome = left.resume()
    assert (outcome.state, outcome.waiting_for) == (SessionState.COMPLETED, None)
    assert left.asked() == [WAITING]
    assert left.count("questions_asked", "question_asked") == 1
    assert left.count("question_answered") == 1
    request = left.ground.agent.requests[0]
    assert (request.phase, request.call) == ("red", 2)
    assert "Q: How wide is an integer?\nA: any" in request.prompt
    assert "Q: And how deep?\nA: very" in request.prompt


def test_questions_that_were_seen_before_they_were_recorded_are_asked_of_nobody_again(
    tmp_path: Path,
) -> None:
    left = Left("waits", tmp_path / "left")
    path = SessionStore(left.ground.base).session_path(left.ground.session_id)
    text = path.read_text()
    cut = text.index('  - timestamp: "2026-01-01T00:00:03')
    path.write_text(text[:cut].replace("state: paused", "state: active") + "...\n")
    left.person.answer(WAITING, ["any", "very"])
    assert left.resume().state is SessionState.COMPLETED
    assert left.asked() == [WAITING]
    assert left.count("question_asked") == left.count("question_answered") == 1


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
def test_answers_that_were_kept_and_not_recorded_are_recorded_though_the_questions_are_gone(
    tmp_path: Path, gone: bool
) -> None:
    left = Left("kept", tmp_path / "left")
    if gone:
        shutil.rmtree(left.questions)
    assert left.resume().state is SessionState.COMPLETED
    assert "Q: How wide is an integer?\nA: any" in left.ground.agent.requests[0].prompt
    assert left.asked() == ([] if gone else [WAITING])
    (told,) = [one for one in left.ground.session.history if one.action == "question_answered"]
    assert told.details == (
        f"question {WAITING}\nHow wide is an integer? -> any\nAnd how deep? -> very"
    )


def test_answers_that_were_kept_and_not_recorded_are_waited_for_no_more(tmp_path: Path) -> None:
    left = Left("kept", tmp_path / "left")
    left.ground.agent.script = {"red": [AgentUnavailable(agent="one", problem="there is no key")]}
    outcome = left.resume()
    assert "there is no key" in (outcome.reason or "")
    assert outcome.waiting_for is None


def test_answers_that_were_recorded_are_waited_for_no_more(tmp_path: Path) -> None:
    left = Left("kept", tmp_path / "left")
    manager = left.ground.manager()
    session = manager.current_session
    assert session is not None
    told = "call 1: How wide is an integer? -> any"
    session.history.append(
        SessionHistory(session.updated_at, "questions_answered", session.current_phase, told)
    )
    manager.save()
    assert left.ground.worker().outcome(left.ground.session_id).waiting_for is None
    assert left.resume().state is SessionState.COMPLETED
    assert left.count("question_answered") == 0


def test_approval_that_was_given_is_taken(tmp_path: Path) -> None:
    left = Left("approval", tmp_path / "left")
    left.person.answer(APPROVAL, ["Approve"])
    assert left.resume().state is SessionState.COMPLETED
    assert left.asked() == [APPROVAL]


def by_hand(place: Path, questions: Path) -> SessionManager:
    manager = SessionManager(
        SessionStore(place / "sessions"),
        channel=QuestionSessionChannel(QuestionSessions(questions)),
    )
    (only,) = manager.store.list_sessions()
    manager.load(only)
    return manager


def test_reply_to_a_session_that_is_led_by_hand_is_found(tmp_path: Path) -> None:
    left = Left("manager", tmp_path / "left")
    reply = by_hand(tmp_path / "left", left.questions).ask([COLOUR], key="one")
    assert (reply.question_id, reply.outcome) == (ANSWERED_BY_HAND, "answered")
    assert reply.answers == (PersonAnswer(question_index=0, selected=("red",)),)
    reply = by_hand(tmp_path / "left", tmp_path / "elsewhere").ask([COLOUR], key="one")
    assert (reply.answers, "→ red" in reply.text) == ((), True)


def test_question_by_hand_that_waited_under_an_id_of_chance_is_answered(tmp_path: Path) -> None:
    left = Left("manager", tmp_path / "left")
    manager = by_hand(tmp_path / "left", left.questions)
    with pytest.raises(QuestionWaits) as caught:
        manager.ask([COLOUR], key="two", pause=True, timeout_s=0)
    assert caught.value.question_id == WAITING_BY_HAND
    left.person.answer(WAITING_BY_HAND, ["blue"])
    assert manager.ask([COLOUR], key="two", pause=True).answers[0].selected == ("blue",)
    assert manager.current_session is not None
    assert manager.current_session.state is SessionState.ACTIVE
    assert sorted(left.asked()) == sorted([ANSWERED_BY_HAND, WAITING_BY_HAND])
