"""A user's own project with the plugin: its tests use the fixtures, and need nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
TESTS = """
from agentforge_sessions import SessionManager
from agentforge_sessions.harness import Question
from agentforge_sessions.testing import ManualClock, MemorySessions, ScriptedAnswers


def test_a_program_asks(
    memory_sessions: MemorySessions, clock: ManualClock, answers: ScriptedAnswers
) -> None:
    answers.answer("Publish?", "Yes")
    manager = SessionManager(memory_sessions, clock=clock, channel=answers)
    session = manager.create(goal="A report")
    assert manager.ask([Question(prompt="Publish?", title="End")]).text == "Yes"
    clock.advance(86_400)
    manager.complete()
    found = memory_sessions.load(session.session_id)
    assert found is not None
    assert found.completed_at == clock()


def test_each_test_has_a_store_of_its_own(memory_sessions: MemorySessions) -> None:
    assert memory_sessions.list_sessions() == []
"""


def run_tests(project: Path, conftest: str) -> subprocess.CompletedProcess[str]:
    (project / "conftest.py").write_text(conftest)
    (project / "test_program.py").write_text(TESTS)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [*command, f"--rootdir={project}", str(project)],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fixtures_are_there_by_one_line(tmp_path: Path) -> None:
    done = run_tests(tmp_path, 'pytest_plugins = ["agentforge_sessions.testing.fixtures"]\n')
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_without_the_line_there_are_none(tmp_path: Path) -> None:
    done = run_tests(tmp_path, "")
    assert "2 errors" in done.stdout, done.stdout + done.stderr
    assert "fixture 'memory_sessions' not found" in done.stdout
