"""The requirement document of this project, as it stands, is a specification that runners take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentforge_sessions.workflows.builtin import TDFLOW
from agentforge_sessions.workflows.documents.specification import Component, Specification
from agentforge_sessions.workflows.documents.specification_document import (
    load_specification,
    read_specification,
    with_status,
)
from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.verdict import GateInput
from agentforge_sessions.workflows.job import AgentWork, Job
from agentforge_sessions.workflows.workflow import Gate

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "examples" / "specs" / "session-manager.yaml"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text()


@pytest.fixture(scope="module")
def specification() -> Specification:
    return load_specification(DOCUMENT)


def component(specification: Specification, name: str) -> Component:
    return specification.component(name, path=DOCUMENT)


def test_document_is_a_specification_as_it_stands(specification: Specification) -> None:
    assert specification.title == "Session Manager for Agent Harness"
    assert (specification.version, specification.status) == ("1.0", "draft")
    assert specification.spec_id == "session-manager-for-agent-harness"
    assert [one.component_id for one in specification.components] == [
        "session_domain",
        "session_store",
        "session_manager",
    ]
    assert len(specification.clarifications) == 2


@pytest.mark.parametrize("name", ["session_domain", "session_store", "session_manager"])
def test_component_stands_where_the_document_says(specification: Specification, name: str) -> None:
    one = component(specification, name)
    assert one.location == f"tools/harness/{name}.py"
    assert one.module == f"tools.harness.{name}"
    assert one.tests == (f"tests/unit/harness/test_{name}.py",)


def test_entities_and_errors_belong_to_the_component_that_offers_them(
    specification: Specification,
) -> None:
    entities = {one.component_id: one.entities for one in specification.components}
    assert [one.name for one in entities["session_domain"]] == [
        "SessionState",
        "TokenBudget",
        "SessionArtifact",
        "SessionHistory",
        "SessionContext",
    ]
    assert [one.name for one in entities["session_store"]] == ["SessionStore"]
    assert [one.name for one in entities["session_manager"]] == ["SessionManager"]
    manager = component(specification, "session_manager")
    assert "InvalidStateTransition" in {one.name for one in manager.errors}


def test_every_criterion_binds_a_component(specification: Specification, text: str) -> None:
    bound = {one.component_id: [each.criterion_id for each in one.criteria]
             for one in specification.components}  # fmt: skip
    assert bound["session_domain"] == ["AC-013", "AC-015", "AC-016", "AC-019", "AC-020"]
    assert bound["session_store"] == ["AC-007", "AC-008", "AC-010", "AC-011", "AC-012"]
    assert set(re.findall(r"id: (AC-\d+)", text)) == {one for ids in bound.values() for one in ids}


def test_criterion_or_requirement_may_name_its_components(text: str) -> None:
    named = text.replace(
        "    - id: AC-014\n", "    - id: AC-014\n      components: [session_domain]\n"
    ).replace(
        "  - id: FR-002\n", "  - id: FR-002\n    components: [session_domain, session_manager]\n"
    )
    found, faults = read_specification(named.encode())
    assert found is not None, faults
    domain = {one.criterion_id for one in component(found, "session_domain").criteria}
    assert {"AC-004", "AC-005", "AC-006", "AC-014"} <= domain
    manager = {one.criterion_id for one in component(found, "session_manager").criteria}
    assert "AC-014" not in manager
    assert "AC-004" in manager


def test_criterion_tells_given_when_and_then(specification: Specification) -> None:
    criteria = component(specification, "session_domain").criteria
    assert criteria[1].text == (
        "Given: Session with 95K tokens used When: can_continue(10000) is called "
        "Then: Returns False (would exceed budget)"
    )


def test_excerpt_leaves_out_the_other_components_only(specification: Specification) -> None:
    excerpt = specification.excerpt(component(specification, "session_store"))
    assert "name: session_store\n" in excerpt
    assert "name: session_manager\n" not in excerpt
    assert "name: session_domain\n" not in excerpt
    assert "id: AC-030" in excerpt
    assert "name: TokenBudget\n" in excerpt


def test_work_that_is_named_as_a_component_is_work_on_it(text: str) -> None:
    work = AgentWork(workflow=TDFLOW, name="session_manager", specification=text.encode())
    found = Job.of(work).component
    assert found is not None
    assert found.component_id == "session_manager"


def test_work_of_a_component_may_write_its_own_files_only(text: str) -> None:
    work = AgentWork(
        workflow=TDFLOW,
        name="session_store",
        specification=text.encode(),
        component_id="session_store",
    )
    ground = Job.of(work)
    assert ground.writable(TDFLOW.phases[0]) == ("tests/unit/harness/test_session_store.py",)
    assert ground.writable(TDFLOW.phases[1]) == ("tools/harness/session_store.py",)


def test_document_passes_the_specification_gate_and_can_be_approved(text: str) -> None:
    gate = Gate(kind="specification", require=["specs/manager.yaml"])
    given = GateInput(files={"specs/manager.yaml": text.encode()})
    verdict = run_gate(gate, given, None)  # type: ignore[arg-type]
    assert verdict.passed, verdict.evidence
    assert verdict.facts["components"] == 3
    approved = with_status(text.encode(), "approved")
    assert approved is not None
    assert approved.decode().splitlines()[2] == "  status: approved"


SPOILT = [
    ("status: draft", "status: done", "metadata.status: expected one of draft, approved, found"),
    ("  impl_file: tools/harness/session_store.py\n", "", "impl_file: is missing"),
    ("module: tools.harness.session_domain", "module: tools.domain",
     "components[0].module: 'tools.domain' is not what tools/harness/session_domain.py is"),
    ("test_file: tests/unit/harness/test_session_store.py", "test_file: tests/store.py",
     "is no file test_….py"),
    ("behavior: Checks if session file exists", "behaviour: Checks", "did you mean 'behavior'?"),
    ("- id: AC-002", "- id: AC-001", "'AC-001' stands on line"),
    ("      then: IDs are unique due to microsecond precision\n", "", "then: is missing"),
    ("priority: should", "priority: perhaps", "priority: expected one of must, should"),
    ("- error_code: SessionCorrupted\n  condition:", "- error_code: SessionCorrupted\n  when:",
     "error_handling[4].condition: is missing"),
    ("nullable: false", "nullable: never", "nullable: expected true or false"),
    ("glossary:", "glosary:", "did you mean 'glossary'?"),
    ("- name: Session Cleanup\n", "- title: Session Cleanup\n", "workflows[2].name: is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "fault"), SPOILT)
def test_fault_is_named_with_its_line(text: str, old: str, new: str, fault: str) -> None:
    assert old in text
    specification, faults = read_specification(text.replace(old, new, 1).encode())
    assert specification is None
    (found,) = [one for one in faults if fault in one]
    assert re.match(r"line \d+: ", found)


def test_all_faults_are_named_at_once_in_the_order_of_the_file(text: str) -> None:
    for old, new, _ in SPOILT:
        text = text.replace(old, new, 1)
    _, faults = read_specification(text.encode())
    assert len(faults) >= len(SPOILT)
    for _, _, fault in SPOILT:
        assert any(fault in one for one in faults), fault
    lines = [int(one.split()[1].rstrip(":")) for one in faults]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    "document", ["requirements: {}", "overview: 1\n", "entities: [1, [2]]\ncomponents: x\n"]
)
def test_document_that_is_hardly_one_is_refused_with_its_faults(document: str) -> None:
    specification, faults = read_specification(document.encode())
    assert specification is None
    assert faults
