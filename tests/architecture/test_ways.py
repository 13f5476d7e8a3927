"""How far five everyday actions go through the package: bounds that only become lower.

Raising a bound is a line in a commit, with its reason.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions import SessionManager
from agentforge_sessions.questions import Question
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.architecture.ways import Way, way_of

SAVE: Final = Way(calls=86, modules=19, crossings=14)
LOAD: Final = Way(calls=86, modules=22, crossings=6)
PHASE: Final = Way(calls=690, modules=91, crossings=70)  # how often the clock is looked at varies
QUESTION: Final = Way(calls=1200, modules=37, crossings=323)
PRUNE: Final = Way(calls=500, modules=43, crossings=96)


def exceeded(way: Way, most: Way) -> dict[str, str]:
    """Return the figures that are over their bounds."""
    figures = zip(way._fields, way, most, strict=True)
    return {name: f"{found}, at most {bound}" for name, found, bound in figures if found > bound}


@pytest.fixture
def manager(tmp_path: Path) -> SessionManager:
    manager = SessionManager(tmp_path / "sessions")
    manager.create("report", "draft", goal="A report")
    for number in range(10):
        manager.add_history("note", f"entry {number}")
    return manager


def test_a_save_goes_no_further_than_its_bound(manager: SessionManager) -> None:
    assert exceeded(way_of(lambda: manager.record_tokens(1)), SAVE) == {}


def test_a_load_of_ten_entries_goes_no_further_than_its_bound(
    manager: SessionManager, tmp_path: Path
) -> None:
    session = manager.list()[0]
    reader = SessionManager(tmp_path / "sessions")
    assert exceeded(way_of(lambda: reader.load(session.session_id)), LOAD) == {}


def test_a_phase_in_the_sandbox_goes_no_further_than_its_bound(tmp_path: Path) -> None:
    manager = build_manager(tmp_path / "sessions")
    manager.create("report", "draft", goal="A report")
    assert exceeded(way_of(lambda: manager.run_phase("print(2)")), PHASE) == {}


def test_a_question_asked_and_answered_goes_no_further_than_its_bound(tmp_path: Path) -> None:
    channel = QuestionSessionChannel(tmp_path / "questions")
    questions = [Question(prompt="Which database?", title="Database")]
    numbers = count()

    def ask() -> None:
        question_id = channel.id_for(str(next(numbers)))
        channel.put(question_id, questions, call_id=None)
        assert channel.answer(question_id, ["SQLite"])
        assert channel.wait(question_id, 1) is not None

    assert exceeded(way_of(ask), QUESTION) == {}


def test_a_prune_of_three_sessions_goes_no_further_than_its_bound(tmp_path: Path) -> None:
    base = tmp_path / "sessions"

    def end_three() -> None:
        for _ in range(3):
            manager = SessionManager(base)
            manager.create("report", "draft", goal="A report")
            manager.complete()

    prune = SessionManager(base).cleanup_old_sessions
    assert exceeded(way_of(lambda: prune(0), prepare=end_three), PRUNE) == {}
