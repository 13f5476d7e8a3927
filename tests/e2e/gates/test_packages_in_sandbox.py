"""Gates in the real sandbox on a project with a src layout that needs a package."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from agentforge_sessions.workflows.documents.specification import Component, Criterion
from agentforge_sessions.workflows.gate_port import PackagedSandbox
from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.verdict import GateInput
from agentforge_sessions.workflows.workflow import Gate
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

COMPONENT = Component(
    component_id="one",
    location="src/adders/one.py",
    tests=("tests/test_one.py",),
    criteria=[Criterion(criterion_id="AC-01", text="It adds.")],
)
TESTS = {
    "pytest": b"""\
from adders.one import add

def test_ac_01_it_adds():
    assert add(1, 2) == 3
""",
    "unittest": b"""\
import unittest
from adders.one import add

class OneTest(unittest.TestCase):
    def test_ac_01_it_adds(self):
        self.assertEqual(add(1, 2), 3)
""",
}
CODE = {"src/adders/one.py": b"from . import total\n\ndef add(a, b):\n    return total([a, b])\n"}


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    made = tmp_path / "helper-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("helper.py", "def total(numbers):\n    return sum(numbers)\n")
        archive.writestr("helper-1.0.dist-info/METADATA", "Name: helper\nVersion: 1.0\n")
    return made


# The framework that starts sooner; `make soak` tries both.
@pytest.mark.parametrize("framework", TESTS if SOAKING else ["unittest"])
def test_a_component_of_a_src_layout_imports_its_package_and_a_wheel(
    helper: Path, tmp_path: Path, framework: str
) -> None:
    base = {"src/adders/__init__.py": b"from helper import total\n"}
    base["tests/test_one.py"] = TESTS[framework]
    gates = SandboxGates()
    assert isinstance(gates, PackagedSandbox)
    packages = (str(helper),)
    red = Gate(kind="tests_fail", framework=framework, covers_criteria=True, packages=packages)
    verdict = run_gate(red, GateInput(files=base, component=COMPONENT), gates)
    assert verdict.passed, verdict
    green = evolve(red, kind="tests_pass")
    verdict = run_gate(green, GateInput(files={**base, **CODE}, component=COMPONENT), gates)
    assert verdict.passed, verdict
    without = evolve(green, packages=())
    verdict = run_gate(without, GateInput(files={**base, **CODE}, component=COMPONENT), gates)
    assert not verdict.passed
    assert "No module named 'helper'" in "\n".join(verdict.evidence)
