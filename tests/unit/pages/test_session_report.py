"""The report of a session: whole, self-contained, and safe whatever was said in it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.pages.session_page import session_report
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.harness import SessionHistory, SessionManager, SessionStore
from agentforge_sessions.harness.domain.history_events import (
    AgentAnswered,
    HistoryEvent,
    PhaseFailed,
    PhaseSucceeded,
    QuestionAnswered,
    QuestionAsked,
    SessionCreated,
)
from agentforge_sessions.workflows.agents.port import AgentUnavailable
from agentforge_sessions.workflows.run.progress import TimeSpent, time_spent
from tests.support.agents import GOOD, GREEN, WRONG, AgentGround, ScriptedAgent, block
from tests.support.pages import PageReader

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e"


def report(ground: AgentGround) -> str:
    return session_report(PageSource(ground.session, SessionStore(ground.base)))


def test_report_tells_the_whole_story(tmp_path: Path) -> None:
    ground = AgentGround(tmp_path / "sessions")
    ground.agent = ScriptedAgent(
        script={**GOOD, "green": [HOSTILE + "\n" + block("adder.py", WRONG), GREEN]}
    )
    ground.start()
    page = report(ground)
    PageReader.of(page)
    assert "<img" not in page
    for words in (
        "Timeline",
        "Budget",
        "Files",
        'green <span class="muted">attempt 2</span>',
        "1 of 1 tests does not pass",
    ):
        assert words in page
    assert "&lt;script&gt;alert(1)" in page, "what the agent said is there, as text"
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_report_loads_nothing(tmp_path: Path) -> None:
    ground = AgentGround(tmp_path / "sessions")
    ground.start()
    page = report(ground)
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|url|@import)\s*[=(]", page)
    assert set(re.findall(r'href="(.)', page)) == {"#"}
    assert "http://" not in page
    assert "https://" not in page


def test_every_session_has_a_report(tmp_path: Path) -> None:
    manager = SessionManager(SessionStore(tmp_path))
    session = manager.create()
    assert session.session_id in session_report(PageSource(session, manager.store))
    ground = AgentGround(tmp_path / "paused")
    ground.start(token_budget=1)
    assert "Tokens left: 1 of 1" in report(ground)


def test_burn_down_tells_all_that_was_charged_and_extended(tmp_path: Path) -> None:
    ground = AgentGround(tmp_path / "sessions")
    gone = AgentUnavailable(agent="scripted", problem="gone")
    ground.agent = ScriptedAgent(script={**GOOD, "green": [gone]})
    ground.start(token_budget=100_000)
    manager = ground.manager()
    manager.extend_budget(50_000)
    manager.record_tokens(1_000)  # by hand, which no entry of the history tells
    budget = ground.session.token_budget
    page = report(ground)
    assert f"Tokens left: {budget.tokens_remaining:,} of 150,000" in page
    (path,) = re.findall(r'<path d="M0,([0-9.]+)([^"]*)" class="left">', page)
    heights = [float(path[0]), *map(float, re.findall(r"V([0-9.]+)", path[1]))]
    assert heights[0] == pytest.approx(100 / 3, abs=0.1), "100,000 of what is 150,000 in the end"
    assert min(heights) > 0
    assert heights[-1] == pytest.approx(100 * budget.tokens_used / 150_000, abs=0.1)


def test_script_phases_are_charged_in_the_report(tmp_path: Path) -> None:
    manager = SessionManager(SessionStore(tmp_path))
    session = manager.create("flow", "collect", 2000)
    details = "attempt 1; exit code 0; 0.02 s; fuel 9; 300 tokens; created a.txt\n; 900 tokens;"
    manager.record(PhaseSucceeded(attempt=1, tokens=300), details, tokens=300)
    page = session_report(PageSource(session, manager.store))
    assert "<td>300</td>" in page
    assert "Tokens left: 1,700 of 2,000" in page


@pytest.mark.parametrize("kind", ["prompt", "answer", "verdict"])
@pytest.mark.parametrize("change", [None, {"text": 5}, {"evidence": [1]}, {"prompt": []}])
def test_step_that_can_not_be_read_is_told(
    tmp_path: Path, kind: str, change: dict[str, object] | None
) -> None:
    ground = AgentGround(tmp_path / "sessions")
    ground.start()
    (step,) = (ground.base / ground.session_id / "steps").glob(f"0001*.{kind}.json")
    text = step.read_text()
    step.write_text("{" if change is None else json.dumps({**json.loads(text), **change}))
    is_broken = (
        change is None or {"text": "answer", "evidence": "verdict"}.get(*change, "prompt") == kind
    )
    said = "The stored verdict" if kind == "verdict" else f"The {kind}"
    assert (f"{said} can't be read: " in report(ground)) == is_broken


def test_time_of_the_person_is_from_the_question_to_its_end() -> None:
    def entry(second: int, event: HistoryEvent) -> SessionHistory:
        return SessionHistory.of(event, datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), "red")

    history = [
        entry(0, SessionCreated()),
        entry(3, AgentAnswered(call=1, tokens=9, seconds=2.5)),
        entry(4, QuestionAsked(question_id="q-1", key="1.1")),
        entry(14, QuestionAnswered(question_id="q-1")),
        entry(20, AgentAnswered(call=2, tokens=9, seconds=1.25)),
        entry(21, PhaseFailed(attempt=1, tokens=18, seconds=0.75)),
        entry(30, QuestionAsked(question_id="q-2", key="1.2")),
    ]
    assert time_spent(history) == TimeSpent(agent=3.75, gate=0.75, person=10.0)
