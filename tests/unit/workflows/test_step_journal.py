"""The steps of a run: kept whole, read back equal, refused when they are something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.harness import SessionContext, SessionStore
from agentforge_sessions.harness.session_layout import STEPS
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentOption,
    AgentQuestion,
    TokenUsage,
)
from agentforge_sessions.workflows.gates.verdict import Verdict
from agentforge_sessions.workflows.run.step_journal import StepJournal, StepKey, StoredAnswer
from tests.support.sessions import session_id as an_id

S = an_id(1)

KEY = StepKey(serial=3, phase="green", attempt=2)
ANSWER = StoredAnswer(
    answer=AgentAnswer(
        text="x\r\n\u2028 ✓ \ud800",
        questions=[
            AgentQuestion(
                prompt="Which?", title="W", options=[AgentOption(label="a")], multi_select=True
            )
        ],
    ),
    usage=TokenUsage(input_tokens=3, output_tokens=4, estimated=True),
    duration_s=1.5,
    agent="somebody",
)


@pytest.fixture
def steps(store: SessionStore) -> StepJournal:
    store.save(SessionContext.create(session_id=S))
    return StepJournal(store, S)


@pytest.fixture
def directory(base: Path) -> Path:
    return base / S / STEPS


def test_nothing_is_there_at_first(steps: StepJournal) -> None:
    assert steps.names() == []
    assert steps.prompt(KEY, 1) is None
    assert steps.answer(KEY, 1, "p") is None
    assert steps.verdict(KEY) is None


def test_what_is_kept_is_read_back_equal(steps: StepJournal, directory: Path) -> None:
    verdict = Verdict(
        gate="suite", passed=True, summary="s", evidence=["e"], duration_s=0.5, facts={"a": [1]}
    )
    steps.keep_prompt(KEY, 1, "p ✓")
    steps.keep_answer(KEY, 1, "p ✓", ANSWER)
    steps.keep_verdict(KEY, verdict)
    assert steps.prompt(KEY, 1) == "p ✓"
    assert steps.answer(KEY, 1, "p ✓") == ANSWER
    assert steps.verdict(KEY) == verdict
    assert steps.names() == [
        "0003-green-2.1.answer.json",
        "0003-green-2.1.prompt.json",
        "0003-green-2.verdict.json",
    ]
    for name in steps.names():
        assert (directory / name).stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700


def test_answer_to_another_prompt_is_never_taken(steps: StepJournal) -> None:
    steps.keep_answer(KEY, 1, "p", ANSWER)
    with pytest.raises(ReadError, match="answers another prompt"):
        steps.answer(KEY, 1, "q")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"gate": 1}', "[" * 100_000])
def test_what_is_no_step_is_told_by_its_path(
    steps: StepJournal, directory: Path, text: str
) -> None:
    directory.mkdir()
    (directory / KEY.name("verdict")).write_text(text)
    with pytest.raises(ReadError, match=r"0003-green-2\.verdict\.json") as caught:
        steps.verdict(KEY)
    assert caught.value.path == directory / KEY.name("verdict")
