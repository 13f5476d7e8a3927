"""The composition root: what it builds, and that nothing is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.harness import Question, QuestionWaits, SessionManager
from agentforge_sessions.questions import InvalidConfig, QuestionSessions
from agentforge_sessions.wiring.bootstrap import build_agent_runner, build_manager, open_questions

QUESTION = Question(prompt="Which colour?", title="Colour", options=["red", "blue"])


def test_a_manager_is_built_without_what_only_phases_and_questions_need(tmp_path: Path) -> None:
    look = (
        "import sys\n"
        "from agentforge_sessions.wiring.bootstrap import build_manager\n"
        "build_manager('sessions')\n"
        "later = ('sandbox', 'questions', 'workflows', 'entrypoints')\n"
        "print([one for one in later if f'agentforge_sessions.{one}' in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


def test_the_configuration_of_questions_is_read_when_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / ".agentforge" / "config.toml"
    config.parent.mkdir()
    config.write_text("not = [toml")
    manager = build_manager()
    manager.create("spec", "clarify")
    with pytest.raises(InvalidConfig):
        manager.ask([QUESTION], timeout_s=0)
    config.unlink()
    with pytest.raises(QuestionWaits):
        manager.ask([QUESTION], timeout_s=0)
    assert len(QuestionSessions(".agentforge/questions").pending()) == 1


def test_questions_of_a_session_that_ended_are_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    manager = build_manager(questions_dir=tmp_path / "questions")
    manager.create("spec", "clarify")
    with pytest.raises(QuestionWaits):
        manager.ask([QUESTION], timeout_s=0)
    assert len(open_questions(tmp_path / "questions").pending()) == 1
    manager.abort()
    assert open_questions(tmp_path / "questions").pending() == []


def test_a_manager_has_its_own_desk(tmp_path: Path) -> None:
    manager = SessionManager(tmp_path)
    with pytest.raises(ValueError, match="channel"):
        build_agent_runner(manager=manager, channel=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="briefing_shows"):
        build_agent_runner(manager=manager, briefing_shows=["title"])


def test_a_briefing_shows_what_a_built_manager_was_given(tmp_path: Path) -> None:
    given = build_manager(tmp_path, briefing_shows=["metadata"])
    session = given.create("spec", "clarify", title="A title", metadata={"owner": "ops"})
    plain = build_manager(tmp_path)
    plain.open(session.session_id)
    assert "A title" in plain.briefing()
    assert "owner" not in plain.briefing()
    assert "A title" not in given.briefing()
    assert '{"owner": "ops"}' in given.briefing()
