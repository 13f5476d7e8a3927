"""A user's own project with the plugin: its tests use the fixtures, and need nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
TESTS = """
import pytest

from agentforge_sessions import session
from agentforge_sessions.harness.steps.errors import StillWaiting
from agentforge_sessions.testing import ManualClock, MemorySessions, ScriptedAnswers

paid: list[str] = []


def draft(topic: str) -> str:
    paid.append(topic)
    return topic.upper()


def report(store: MemorySessions, clock: ManualClock, answers: ScriptedAnswers) -> str | None:
    opened = session(
        "report", key="AI", store=store, clock=clock, sleep=clock.sleep, channel=answers,
        patience_s=60,
    )
    with opened as s:
        text = s.step("draft", draft, "ai")
        s.sleep(30)
        if s.ask("Publish?", options=["Yes", "No"]) == "Yes":
            s.finish(text)
        result: str | None = s.result
        return result


def test_a_program_asks(
    memory_sessions: MemorySessions, clock: ManualClock, answers: ScriptedAnswers
) -> None:
    started = clock()
    with pytest.raises(StillWaiting):
        report(memory_sessions, clock, answers)
    assert (clock() - started).total_seconds() == pytest.approx(90, abs=2)
    answers.answer("Publish?", "Yes")
    assert report(memory_sessions, clock, answers) == "AI"
    assert report(memory_sessions, clock, answers) == "AI"
    assert (paid, answers.asked) == (["ai"], ["Publish?"])


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
