"""Components in another language than Python: what phases may write, and which gates they need."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows import TDFLOW, AgentWork, Job
from agentforge_sessions.workflows.errors import InvalidWorkflow
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
