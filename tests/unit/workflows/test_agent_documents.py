"""The examples in the documents are what they say."""

from __future__ import annotations

import re
from pathlib import Path

from agentforge_sessions.workflows.prompts.answers import parse_answer
from agentforge_sessions.workflows.workflow import GATES

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_gate_is_documented() -> None:
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    section = text.split("## Gates", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(GATES)


def test_documented_answer_is_one() -> None:
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    (answer,) = re.findall(r"^````markdown\n(.*?)^````$", text, re.MULTILINE | re.DOTALL)
    assert [one.path for one in parse_answer(answer).files] == ["session_domain.py"]
