"""Workflows of agents as YAML files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionState
from agentforge_sessions.workflows import AgentWork, InvalidWorkflow, Workflow, load_agent_workflow
from agentforge_sessions.workflows.builtin import BUILT_IN
from agentforge_sessions.workflows.documents.workflow_document import read_agent_workflow
from agentforge_sessions.workflows.documents.workflow_snapshot import snapshot_of
from tests.support.agents import AgentGround, ScriptedAgent, block

ROOT = Path(__file__).resolve().parents[3]
TEXT = """\
schema_version: 1
name: letter
workflow_type: letters
goal: Write a letter.
token_budget: 50000
role: You write letters.
files:
  - group: letters
    paths: [letters/, "notes/{name}.md"]
phases:
  - name: write
    prompt: Write letters/one.md.
    writes: [letters]
    budget_share: 0.8
    gate: {kind: files, require: [letters/one.md]}
  - name: check
    gate:
      kind: script
      deadline_s: 5
      code: |
        import sys
        sys.exit(0)
    on_failure: write
    retry: {max_attempts: 2}
"""


def read(text: str) -> Workflow:
    return read_agent_workflow(text.encode(), Path("flow.yaml"))


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_workflows_are_what_a_file_can_say(name: str) -> None:
    workflow = BUILT_IN[name]
    assert read_agent_workflow(snapshot_of(workflow), Path("x")) == workflow


def test_file_says_all(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(TEXT)
    workflow = load_agent_workflow(path)
    write, check = workflow.phases
    assert (write.mode, write.budget_share, write.writes) == ("write", 0.8, ("letters",))
    assert (check.on_failure, check.max_attempts, check.gate.deadline_s) == ("write", 2, 5)
    assert check.gate.code == "import sys\nsys.exit(0)\n"
    assert read_agent_workflow(snapshot_of(workflow), path) == workflow


def test_file_runs(tmp_path: Path) -> None:
    ground = AgentGround(tmp_path / "sessions")
    ground.agent = ScriptedAgent(script={"write": [block("letters/one.md", "Dear\n")]})
    outcome = ground.start(AgentWork(workflow=read(TEXT), name="one"))
    assert outcome.state is SessionState.COMPLETED
    assert "notes/one.md" in ground.agent.requests[0].prompt


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("schema_version: 1", "schema_version: 9", "schema_version: 9 is newer than 1"),
        ("role: You write letters.", "", "role: is missing"),
        ("writes: [letters]", "writes: [books]", "'books' is no file group"),
        ("group: letters", "group: code", "'code' is the component's"),
        ("notes/{name}.md", "../{name}.md", "not inside the workspace"),
        ("kind: script", "kind: magic", "'magic' is none of tests_fail"),
        ("kind: files", "kind: tests_pass", "needs a component"),
        ("on_failure: write", "on_failure: later", "'later' is no earlier phase"),
        (
            "budget_share: 0.8",
            "budget_share: 80",
            "budget_share: expected more than 0, up to 1, found 80",
        ),
        ("budget_share: 0.8", "budget_share: 0", "expected more than 0, up to 1, found 0"),
        ("    writes: [letters]\n", "", "has to be allowed to write something"),
        ("    prompt: Write letters/one.md.\n", "", "prompt: is missing"),
        ("name: check", "name: write", "'write' stands twice"),
        (", require: [letters/one.md]", "", "names its files"),
        (
            "kind: script",
            "kind: script\n      tests_unchanged: true",
            "an earlier phase whose gate",
        ),
        ("deadline_s: 5", "deadline: 5", "did you mean 'deadline_s'?"),
    ],
)
def test_each_fault_is_named(old: str, new: str, fault: str) -> None:
    assert old in TEXT
    with pytest.raises(InvalidWorkflow) as caught:
        read(TEXT.replace(old, new, 1))
    assert any(fault in one for one in caught.value.faults), caught.value.faults
    assert caught.value.path == Path("flow.yaml")


def test_faults_of_every_sort_are_told_at_once_with_their_lines() -> None:
    text = TEXT
    for old, new in (
        ("role: You write letters.", ""),
        ("kind: script", "kind: magic"),
        ("on_failure: write", "on_failure: later"),
        ("writes: [letters]", "writes: [books]"),
    ):
        text = text.replace(old, new, 1)
    with pytest.raises(InvalidWorkflow) as caught:
        read(text)
    told = caught.value.faults
    for fault in ("role: is missing", "'magic' is none of", "'later' is no earlier", "'books' is"):
        assert any(fault in one for one in told), told
    assert len(told) == 4
    assert all(one.startswith("line ") for one in told[1:])


def test_gate_that_is_missing_is_one_fault() -> None:
    text = re.sub(r"(?m)^    gate: \{kind: files.*\n", "", TEXT, count=1)
    assert text != TEXT
    with pytest.raises(InvalidWorkflow) as caught:
        read(text)
    (fault,) = caught.value.faults
    assert "gate: is missing" in fault


@pytest.mark.parametrize("text", ["", "7", "- a", "{", "phases: 7"])
def test_what_is_no_workflow_is_told(text: str) -> None:
    with pytest.raises(InvalidWorkflow):
        read(text)
