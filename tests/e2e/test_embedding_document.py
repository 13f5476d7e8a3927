"""The code of docs/embedding.md runs as it stands there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.harness import SessionState
from tools.questions import QuestionSessions, UserAnswer
from tools.sandbox import prepare

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
TDFLOW, SPEC, OWN, ON = (code for _, code in SECTIONS)


def run(code: str, monkeypatch: pytest.MonkeyPatch, **names: object) -> dict[str, object]:
    prepare()
    monkeypatch.chdir(ROOT)
    exec(compile(code, "docs/embedding.md", "exec", dont_inherit=True), names)
    return names


@contextmanager
def person(base: Path) -> Iterator[None]:
    """Somebody who answers each question session, always with the first option."""
    done = threading.Event()

    def answer() -> None:
        sessions = QuestionSessions(base)
        while not done.wait(0.05):
            for waiting in sessions.pending():
                asked = sessions.get(waiting.request.session_id).request
                sessions.save_session_answers(
                    asked.session_id,
                    [
                        UserAnswer(question_index=index, selected_option=one.options[0].label)
                        for index, one in enumerate(asked.questions)
                    ],
                )

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_sections_are_the_four() -> None:
    assert [name for name, _ in SECTIONS] == [
        "TDFLOW in ten lines",
        "SPEC in ten lines",
        "An agent of your own",
        "Going on",
    ]


@pytest.mark.parametrize("code", [TDFLOW, SPEC])
def test_runners_are_embedded_in_ten_lines(code: str) -> None:
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_tdflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(TDFLOW, monkeypatch, base=tmp_path / "sessions")
    outcome = names["outcome"]
    assert outcome.state is SessionState.COMPLETED  # type: ignore[attr-defined]
    assert outcome.attempts == {"red": 1, "green": 2, "refactor": 1, "verify": 1}  # type: ignore[attr-defined]


def test_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with person(tmp_path / "questions"):
        names = run(SPEC, monkeypatch, base=tmp_path / "sessions")
    outcome = names["outcome"]
    assert outcome.reason is None  # type: ignore[attr-defined]
    assert outcome.state is SessionState.COMPLETED  # type: ignore[attr-defined]
    assert outcome.attempts["draft"] == 2  # type: ignore[attr-defined]
    (product,) = (tmp_path / "sessions").glob("*/workspace/specs/slugs.yaml")
    text = product.read_text()
    assert "status: approved" in text
    assert "answer: Drop them" in text


def test_own_agent_and_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(OWN, monkeypatch, base=tmp_path / "sessions")
    assert names["outcome"].state is SessionState.COMPLETED  # type: ignore[attr-defined]
    run(ON, monkeypatch, **names)
