"""Components in another language than Python: what phases may write, and which gates they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.workflows import TDFLOW, AgentWork, Job
from agentforge_sessions.workflows.documents.workflow_document import read_agent_workflow
from agentforge_sessions.workflows.documents.workflow_snapshot import snapshot_of
from agentforge_sessions.workflows.errors import InvalidWorkflow
from agentforge_sessions.workflows.run.job_prompt import first_prompt
from tests.support.agents import SPEC

SCRIPT = """\
schema_version: 1
metadata: {spec_id: star-height, title: Star height, version: "1.0.0", status: approved}
components:
  - component_id: star_height
    location: lib/star-height.js
    other_files: [types/index.d.ts, "lib/**"]
    tests: ["lib/**/*.test.js", test/]
    entities: [{name: starHeight, kind: function}]
    acceptance_criteria: [{id: AC-01, text: Nested repetitions are counted.}]
"""


def script_job() -> Job:
    workflow = TDFLOW.with_command("npm test", report="tap")
    return Job.of(AgentWork(workflow=workflow, name="star_height", specification=SCRIPT.encode()))


def test_phases_write_the_files_of_their_kind() -> None:
    job = script_job()
    red, green = (job.workflow.phase(name) for name in ("red", "green"))
    assert red is not None
    assert green is not None
    assert job.writable(green) == ("lib/star-height.js", "types/index.d.ts", "lib/**")
    for path in ("lib/star-height.js", "types/index.d.ts", "lib/parts/walk.js"):
        assert job.refusal(green, path) is None
        assert "none of the files that phase red may write" in str(job.refusal(red, path))
    for path in ("test/a.js", "lib/walk.test.js", "lib/parts/walk.test.js"):
        assert job.refusal(red, path) is None
        assert "is one of the tests, which are fixed" in str(job.refusal(green, path))
    assert "none of the files" in str(job.refusal(green, "package.json"))


def test_prompts_speak_of_no_python_where_there_is_none() -> None:
    found = first_prompt(script_job())
    assert found is not None
    prompt = found[1]
    for word in ("pytest", "Python", "python", "WebAssembly", "test_example.py", "imported as"):
        assert word not in prompt
    assert "Code: lib/star-height.js, types/index.d.ts, lib/**" in prompt
    assert '"AC-01: a new budget has nothing spent"' in prompt
    assert "```javascript:lib/example.test.js" in prompt


def test_the_prompt_names_the_packages_that_the_sandbox_has() -> None:
    workflow = TDFLOW.with_packages(["idna", "/wheels/helper-1.0-py3-none-any.whl"])
    work = AgentWork(workflow=workflow, name="adder", specification=SPEC.encode())
    found = first_prompt(Job.of(work))
    assert found is not None
    assert "attrs, pytest, idna, helper-1.0-py3-none-any.whl; use no other" in found[1]
    again = read_agent_workflow(snapshot_of(workflow), Path("workflow.yaml"))
    assert again.packages == workflow.packages == {("idna", "/wheels/helper-1.0-py3-none-any.whl")}


@pytest.mark.parametrize("name", ["../idna", "", "-idna", "idna 1"])
def test_a_package_has_a_name_or_is_a_wheel(name: str) -> None:
    with pytest.raises(InvalidWorkflow, match="no name of a package"):
        TDFLOW.with_packages([name])


def test_packages_and_a_command_exclude_each_other() -> None:
    with pytest.raises(InvalidWorkflow, match="a gate that runs tests in the sandbox"):
        TDFLOW.with_command("pytest").with_packages(["idna"])


def test_the_sandbox_is_refused_as_a_gate_before_anything_begins() -> None:
    work = AgentWork(workflow=TDFLOW, name="star_height", specification=SCRIPT.encode())
    with pytest.raises(InvalidWorkflow) as caught:
        Job.of(work)
    assert "lib/star-height.js is none" in caught.value.faults[0]
    assert "--gate" in caught.value.faults[0]


@pytest.mark.parametrize(
    ("known", "said", "module"),
    [
        (None, "", "adders.one"),
        ("src", "", "adders.one"),
        (".", "", "src.adders.one"),
        (".", "    import_root: src\n", "adders.one"),
    ],
)
def test_what_the_specification_says_of_imports_goes_before_the_project(
    known: str | None, said: str, module: str
) -> None:
    text = SPEC.replace("    location: adder.py\n", f"    location: src/adders/one.py\n{said}")
    work = AgentWork(workflow=TDFLOW, name="adder", specification=text.encode(), import_root=known)
    component = Job.of(work).component
    assert component is not None
    assert component.module == module
