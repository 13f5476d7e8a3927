"""Gates by command in a real jail: pytest, Node's own runner, and files that would deceive."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.jail import JailPolicy
from agentforge_sessions.wiring.gates.gate_jail import JailGates
from agentforge_sessions.workflows.documents.specification import Component
from agentforge_sessions.workflows.gate_port import (
    CommandExecution,
    CommandRequest,
    GateCommands,
    GateUnavailable,
)
from agentforge_sessions.workflows.gates.command_gates import run_command_gate
from agentforge_sessions.workflows.gates.verdict import GateInput, Verdict
from agentforge_sessions.workflows.workflow import Gate

PYTEST: Final = f"{sys.executable} -m pytest -q -p no:cacheprovider"
TEST: Final = b"def test_adds():\n    import sums\n    assert sums.add(1, 2) == 3\n"
OLD: Final = b"def test_old():\n    assert True\n"
RIGHT: Final = b"def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def gates() -> JailGates:
    made = JailGates(JailPolicy(environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}))
    try:
        made.prepare([CommandRequest(command=PYTEST, report="junit")])
    except GateUnavailable as error:
        pytest.skip(str(error))
    return made


def judged(gates: JailGates, kind: str, files: dict[str, bytes], **given: object) -> Verdict:
    gate = Gate(kind=kind, command=PYTEST)
    return run_command_gate(gate, GateInput(files=files, **given), gates)  # type: ignore[arg-type]


def test_it_is_what_gates_ask_for(gates: JailGates) -> None:
    assert isinstance(gates, GateCommands)
    with pytest.raises(GateUnavailable, match="no-such-program"):
        gates.prepare([CommandRequest(command="no-such-program test", report="junit")])


def test_a_component_is_developed_test_first(gates: JailGates) -> None:
    base = {"test_old.py": OLD}
    red = judged(gates, "tests_fail", {**base, "test_sums.py": TEST}, base=base)
    assert red.passed, red
    assert red.facts["tests"] == ["pytest::test_sums::test_adds"]
    files = {**base, "test_sums.py": TEST, "sums.py": RIGHT}
    green = judged(gates, "tests_pass", files, baseline=red.facts)
    assert green.passed, green
    assert green.facts["sealed"]


def test_a_test_that_ends_the_process_is_no_success(gates: JailGates) -> None:
    files = {"test_x.py": b"import os\ndef test_x():\n    os._exit(0)\n"}
    verdict = judged(gates, "suite", files)
    assert not verdict.passed
    assert "left no report (exit code 0)" in verdict.summary


def test_a_report_of_another_run_proves_nothing(gates: JailGates) -> None:
    report = b'<testsuite><testcase name="x"/></testsuite>'
    gate = Gate(kind="suite", command="true", report_path="reports/**/*.xml")
    files = {"reports/a/old.xml": report}
    verdict = run_command_gate(gate, GateInput(files=files), gates)
    assert not verdict.passed
    assert "left no report" in verdict.summary
    gate = Gate(kind="suite", command="cp kept.xml reports.xml", report_path="*s.xml")
    assert run_command_gate(gate, GateInput(files={"kept.xml": report}), gates).passed


@pytest.mark.parametrize("root", ["", "src"])
def test_imports_begin_where_the_component_says(gates: JailGates, root: str) -> None:
    place = f"{root}/sums.py".lstrip("/")
    files = {place: RIGHT, "tests/test_sums.py": TEST, "tests/__init__.py": b""}
    command = f"{sys.executable} -P -m pytest -q -p no:cacheprovider --import-mode=importlib"
    component = Component(component_id="sums", location=place, tests=("tests/",))
    verdict = run_command_gate(
        Gate(kind="suite", command=command),
        GateInput(files=files, component=component),
        gates,
    )
    assert verdict.passed, verdict


def test_tap_of_nodes_own_runner_is_read(gates: JailGates) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    source = b"require('node:test')('adds', () => { require('assert').equal(1 + 1, 2) })\n"
    gate = Gate(kind="suite", command="node --test --test-reporter=tap sums.test.js", report="tap")
    verdict = run_command_gate(gate, GateInput(files={"sums.test.js": source}), gates)
    assert verdict.passed, verdict


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolchain of the machine that is outside of the system's folders, and on the path."""
    folder = tmp_path / "toolchain"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "rustlib").mkdir(parents=True)
    (folder / "lib" / "rustlib" / "part").write_text("whole\n")
    program = folder / "bin" / "buildtool"
    program.write_text('#!/bin/sh\ncat "${0%/bin/*}/lib/rustlib/part"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


def executed(command: str, policy: JailPolicy | None = None, **files: bytes) -> CommandExecution:
    gates = JailGates(policy)
    request = CommandRequest(command=command, report="exit-code")
    try:
        gates.prepare([request])
    except GateUnavailable as error:
        pytest.skip(str(error))
    return gates.run(request, files=files)


def test_a_shells_words_find_their_toolchains(tool: Path) -> None:
    done = executed("sh -ec 'buildtool test && env A=b buildtool again'")
    assert (done.result.exit_code, done.result.stdout) == (0, "whole\nwhole\n"), done
    assert done.missing is None


def test_a_stand_in_that_looks_for_a_version_is_named(tool: Path, tmp_path: Path) -> None:
    shim = tmp_path / ".pyenv" / "shims" / "buildtool"
    shim.parent.mkdir(parents=True)
    shim.write_text('#!/bin/sh\nexec "/nowhere/.pyenv/libexec/pyenv" exec "$@"\n')
    shim.chmod(0o755)
    (tool / "bin" / "buildtool").unlink()
    command = f"{shim} test"
    done = executed(command)
    assert done.result.exit_code == 127
    assert done.missing is not None
    assert "is a stand-in that looks for a version" in done.missing
    assert "`pyenv which buildtool` prints it" in done.missing


def test_what_is_not_found_is_no_red_test_and_said_with_what_to_change(tool: Path) -> None:
    makefile = b"test:\n\tbuildtool test\n"
    done = executed("make test", Makefile=makefile)
    assert done.missing is not None
    assert done.missing.endswith(f'Add to [jail] in the configuration: read = ["{tool}"]')
    gate = Gate(kind="tests_fail", command="make test", report="exit-code")
    verdict = run_command_gate(gate, GateInput(files={"Makefile": makefile}), JailGates())
    assert not verdict.passed
    assert verdict.summary == "a program of the command was not found (exit code 2)"
    assert verdict.evidence[0] == done.missing

    followed = executed("make test", JailPolicy(read=[str(tool)]), Makefile=makefile)
    assert (followed.result.exit_code, followed.missing) == (0, None), followed
    assert "whole" in followed.result.stdout
