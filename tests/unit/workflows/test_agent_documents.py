"""The examples in the documents are what they say."""

from __future__ import annotations

import re
from pathlib import Path

from agentforge_sessions.workflows.documents.specification_document import parse_specification
from agentforge_sessions.workflows.documents.workflow_document import read_agent_workflow
from agentforge_sessions.workflows.prompts.answers import parse_answer
from agentforge_sessions.workflows.workflow import GATES

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(name: str, language: str) -> list[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_documented_workflow_is_one() -> None:
    (text,) = blocks("agents.md", "yaml")
    workflow = read_agent_workflow(text.encode(), DOCS / "agents.md")
    assert [phase.name for phase in workflow.phases] == ["draft", "check", "approve"]


def test_documented_specification_is_one() -> None:
    _, *texts = blocks("workflows.md", "yaml")
    assert len(texts) == 2, "one of each form"
    for text in texts:
        assert parse_specification(text.encode(), path=DOCS / "workflows.md").spec_id


def test_every_gate_is_documented() -> None:
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    section = text.split("## Gates", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(GATES)


def test_documented_answer_is_one() -> None:
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    (answer,) = re.findall(r"^````markdown\n(.*?)^````$", text, re.MULTILINE | re.DOTALL)
    assert [one.path for one in parse_answer(answer).files] == ["session_domain.py"]
