"""What a run of a project's own tests says about a phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from agentforge_sessions.harness import PhaseResult
from agentforge_sessions.workflows.errors import InvalidWorkflow
from agentforge_sessions.workflows.gate_port import (
    CommandExecution,
    CommandRequest,
    GateCommands,
    GateUnavailable,
)
from agentforge_sessions.workflows.gates.command_gates import read_base, run_command_gate
from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.test_reports import Outcomes
from agentforge_sessions.workflows.gates.verdict import GateInput, Verdict
from agentforge_sessions.workflows.workflow import Gate

FILES = {"src/sums.py": b"", "tests/test_sums.py": b"x"}
BASE = {"src/sums.py": b""}


def execution(
    code: int | None,
    cases: Mapping[str, str] | bytes | None,
    *,
    trapped: str | None = None,
    stdout: str = "the output",
) -> CommandExecution:
    """A run that ended with a code and left a report: cases as "passed", "skipped" or a failure."""
    reports = {}
    if isinstance(cases, bytes):
        reports = {"report.xml": cases}
    elif cases is not None:
        reports = {"report.xml": f"<testsuite>{''.join(_xml(cases))}</testsuite>".encode()}
    result = PhaseResult(
        success=code == 0, exit_code=code, trapped=trapped, stdout=stdout, duration_s=0.5
    )
    return CommandExecution(result=result, reports=reports)


def _xml(cases: Mapping[str, str]) -> Iterable[str]:
    for name, outcome in cases.items():
        yield f'<testcase name="{name}">'
        if outcome == "skipped":
            yield "<skipped/>"
        elif outcome != "passed":
            yield f'<failure message="{outcome}"/>'
        yield "</testcase>"


class Played(GateCommands):
    """Answers with what was recorded: on the base, and on the files of the phase."""

    def __init__(self, now: CommandExecution, base: CommandExecution | None = None) -> None:
        self.now, self.base = now, base
        self.requests: list[CommandRequest] = []

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        self.requests += requests

    def run(self, request: CommandRequest, *, files: Mapping[str, bytes]) -> CommandExecution:
        self.requests.append(request)
        if files == BASE:
            assert self.base is not None
            return self.base
        return self.now


def test_a_test_that_waits_for_a_syntax_error_is_not_broken() -> None:
    text = "Expected values to be equal: + actual - expected name: 'SyntaxError'"
    now = execution(1, {"old": "passed", "AC-01 throws": text})
    verdict = judged("tests_fail", now, base=execution(0, {"old": "passed"}))
    assert verdict.passed, verdict
    now = execution(1, {"old": "passed", "AC-01 throws": "SyntaxError: Unexpected identifier"})
    verdict = judged("tests_fail", now, base=execution(0, {"old": "passed"}))
    assert "is broken itself" in verdict.evidence[0]


def test_a_module_without_the_name_yet_is_no_broken_test() -> None:
    text = "SyntaxError: The requested module './a.js' does not provide an export named 'b'"
    now = execution(1, {"old": "passed", "/work/tests/test_sums.py": text})
    verdict = judged("tests_fail", now, base=execution(0, {"old": "passed"}))
    assert "Use what is still missing within the tests only" in verdict.evidence[0]


def judged(
    kind: str,
    now: CommandExecution,
    *,
    base: CommandExecution | None = None,
    baseline: Mapping[str, Any] | None = None,
    report: str = "junit",
) -> Verdict:
    gate = Gate(kind=kind, command="run the tests", report=report)
    given = GateInput(files=FILES, baseline=baseline, base=BASE if base is not None else {})
    return run_command_gate(gate, given, Played(now, base))


MISSING = "ModuleNotFoundError: no module named sums"
OLD = execution(0, {"old": "passed", "slow": "skipped"})


def test_red_is_passed_by_new_tests_that_fail_beside_old_ones_that_pass() -> None:
    now = execution(1, {"old": "passed", "slow": "skipped", "new": MISSING})
    verdict = judged("tests_fail", now, base=OLD)
    assert verdict.passed, verdict
    assert verdict.facts["tests"] == ["new"]
    assert verdict.facts["all_tests"] == ["new", "old", "slow"]
    assert verdict.facts["skipped_before"] == ["slow"]
    assert verdict.duration_s == 1.0
    assert "2 older ones" in verdict.summary


@pytest.mark.parametrize(
    ("code", "cases", "words"),
    [
        (0, {"old": "passed", "slow": "skipped", "new": "passed"}, "right reason"),
        (1, {"old": "passed", "slow": "skipped", "new": "passed", "n2": MISSING}, "1 of 2"),
        (0, {"old": "passed", "slow": "skipped", "new": "skipped"}, "right reason"),
        (0, {"old": "passed", "slow": "skipped"}, "no new test"),
        (1, {"old": "assert 1", "slow": "skipped", "new": MISSING}, "not pass any more"),
        (1, {"slow": "skipped", "new": MISSING}, "1 older test was not run"),
        (1, {"old": "skipped", "slow": "skipped", "new": MISSING}, "not pass any more"),
        (1, {"old": "passed", "slow": "skipped", "new": "SyntaxError: x"}, "right reason"),
        (2, {"old": "passed", "slow": "skipped", "tests.test_sums": MISSING}, "right reason"),
        (2, {"old": "passed", "slow": "skipped", "/work/tests/test_sums.py": "x"}, "right reason"),
        (2, {"old": "passed", "slow": "skipped", "x": "collection failure"}, "right reason"),
    ],
)
def test_red_is_failed_by_anything_else(code: int, cases: dict[str, str], words: str) -> None:
    verdict = judged("tests_fail", execution(code, cases), base=OLD)
    assert not verdict.passed
    assert words in verdict.summary
    assert verdict.evidence


def test_new_tests_that_share_a_name_fail_red() -> None:
    twice = b'<testsuite><testcase name="n"><failure/></testcase><testcase name="n"/></testsuite>'
    verdict = judged("tests_fail", execution(1, twice))
    assert not verdict.passed
    assert "no name of their own" in verdict.summary


def test_a_base_that_can_not_be_run_is_told_as_such() -> None:
    now = execution(1, {"new": MISSING})
    verdict = judged("tests_fail", now, base=execution(0, None))
    assert not verdict.passed
    assert verdict.summary.startswith("on the base")
    assert judged("tests_fail", now, base=execution(5, None)).passed  # no test there: no report


@pytest.mark.parametrize("cases", [None, {}, {"old": "passed"}, {"old": "passed", "o": "skipped"}])
@pytest.mark.parametrize("kind", ["tests_fail", "tests_pass", "suite"])
def test_a_base_that_fails_without_a_failed_test_is_refused(
    kind: str, cases: dict[str, str] | None
) -> None:
    found = read_base(Gate(kind=kind, command="run the tests"), execution(1, cases))
    assert isinstance(found, Verdict)
    assert "ended with 1, and names no test that failed" in found.summary
    assert "the output" in "".join(found.evidence)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (5, ""),
        (4, "ERROR: file or directory not found: tests"),
        (1, "No tests found, exiting with code 1"),
        (1, "No test files found, exiting with code 1"),
        (1, "Error: No test files found"),
        (1, "Could not find '/workspace/tests'"),
    ],
)
def test_a_base_without_a_test_is_a_base(code: int, said: str) -> None:
    found = read_base(Gate(kind="tests_fail", command="t"), execution(code, None, stdout=said))
    assert isinstance(found, Outcomes)
    assert not found.cases


def test_what_failed_on_the_base_may_fail_still() -> None:
    base = execution(1, {"old": "passed", "bad": "broken for years"})
    red = judged(
        "tests_fail", execution(1, {"old": "passed", "bad": "x", "new": MISSING}), base=base
    )
    assert red.passed
    assert red.facts["failed_before"] == ["bad"]
    now = execution(1, {"old": "passed", "bad": "x", "new": "passed"})
    green = judged("tests_pass", now, baseline=red.facts)
    assert green.passed
    assert green.facts["still_failing"] == ["bad"]
    assert "1 fails as it did on the base" in green.summary


@pytest.mark.parametrize(
    "cases", [{"tests.test_sums::adds": "passed"}, {"tests.test_sums": "x", "other": "passed"}]
)
def test_a_file_that_could_not_be_loaded_on_the_base_has_its_tests_once_it_is(
    cases: dict[str, str],
) -> None:
    baseline = {"all_tests": ["tests.test_sums"], "failed_before": ["tests.test_sums"]}
    now = execution(1 if "x" in cases.values() else 0, cases)
    assert judged("tests_pass", now, baseline=baseline).passed
    gone = {"all_tests": ["tests.test_gone"], "failed_before": ["tests.test_gone"]}
    verdict = judged("tests_pass", now, baseline=gone)
    assert "1 test was not run" in verdict.summary, "its file is not there any more"


def test_red_does_without_the_case_of_a_file_that_is_loaded_now() -> None:
    base = execution(1, {"old": "passed", "tests.test_sums": "ImportError"})
    now = execution(1, {"old": "passed", "tests.test_sums::adds": MISSING})
    assert judged("tests_fail", now, base=base).passed


BASELINE = {
    "tests": ["new"],
    "all_tests": ["new", "old", "slow"],
    "skipped_before": ["slow"],
    "failed_before": [],
}


@pytest.mark.parametrize("kind", ["tests_pass", "suite"])
def test_green_and_verify_are_passed_when_all_are_there_and_pass(kind: str) -> None:
    now = execution(0, {"old": "passed", "slow": "skipped", "new": "passed", "more": "passed"})
    verdict = judged(kind, now, baseline=BASELINE)
    assert verdict.passed
    assert verdict.summary == "3 tests pass"
    assert verdict.facts["sealed"]


@pytest.mark.parametrize(
    ("code", "cases", "words"),
    [
        (1, {"old": "passed", "slow": "skipped", "new": "assert 1"}, "1 of 3 tests does not pass"),
        (1, {"old": "x", "slow": "skipped", "new": "passed"}, "1 of 3 tests does not pass"),
        (0, {"old": "passed", "slow": "skipped"}, "1 test was not run"),
        (0, {"old": "passed", "slow": "skipped", "new": "skipped"}, "1 test is skipped"),
        (0, {"old": "skipped", "slow": "skipped", "new": "passed"}, "1 test is skipped"),
    ],
)
def test_green_is_failed_by_anything_else(code: int, cases: dict[str, str], words: str) -> None:
    verdict = judged("tests_pass", execution(code, cases), baseline=BASELINE)
    assert not verdict.passed
    assert words in verdict.summary
    assert verdict.evidence


@pytest.mark.parametrize("kind", ["tests_fail", "tests_pass", "suite"])
@pytest.mark.parametrize(
    ("run", "words"),
    [
        (execution(0, None), "left no report"),
        (execution(1, None), "left no report"),
        (execution(0, b""), "is no XML"),
        (execution(0, b"<!DOCTYPE x><testsuite/>"), "document type"),
        (execution(0, {}), "names no test"),
        (execution(0, {"a": "failed"}), "ended with 0"),
        (execution(2, {"a": "passed"}), "names no test that failed"),
        (execution(None, {"a": "passed"}, trapped="deadline"), "did not come to their end"),
    ],
)
def test_a_run_that_proves_nothing_passes_nothing(
    kind: str, run: CommandExecution, words: str
) -> None:
    verdict = judged(kind, run)
    assert not verdict.passed
    assert words in verdict.summary


@pytest.mark.parametrize(
    ("kind", "code", "passed"),
    [("tests_fail", 1, True), ("tests_fail", 0, False), ("suite", 0, True), ("suite", 1, False)],
)
def test_the_exit_code_alone_is_told_as_weak_evidence(kind: str, code: int, passed: bool) -> None:
    verdict = judged(kind, execution(code, None), report="exit-code")
    assert verdict.passed is passed
    assert "weak evidence" in verdict.summary
    assert verdict.facts["strength"] == "weak"


def test_by_the_exit_code_alone_the_base_has_to_pass() -> None:
    run = execution(1, None)
    assert judged("tests_fail", run, base=execution(0, None), report="exit-code").passed
    verdict = judged("tests_fail", run, base=run, report="exit-code")
    assert not verdict.passed
    assert "failed already" in verdict.summary


def test_tap_is_read_of_the_output() -> None:
    run = CommandExecution(
        result=PhaseResult(success=True, exit_code=0),
        reports={"standard output": b"1..1\nok 1 - adds\n"},
    )
    assert judged("suite", run, report="tap").passed


class NoSandbox:
    """A sandbox that is never asked."""


def test_a_gate_with_a_command_needs_something_to_run_it() -> None:
    gate = Gate(kind="suite", command="make test")
    with pytest.raises(GateUnavailable, match="command"):
        run_gate(gate, GateInput(files=FILES), NoSandbox())  # type: ignore[arg-type]
    played = Played(execution(0, {"a": "passed"}))
    sandbox: Any = NoSandbox()
    assert run_gate(gate, GateInput(files=FILES), sandbox, played).passed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": "'open"}, "quotes"),
        ({"command": " "}, "is empty"),
        ({"command": "x", "report": "html"}, "none of"),
        ({"command": "x", "report_path": "../x.xml"}, "report_path"),
        ({"command": "x", "report": "tap", "report_path": "x"}, "JUnit"),
    ],
)
def test_a_command_that_is_none_is_refused(given: dict[str, str], words: str) -> None:
    from agentforge_sessions.workflows.builtin import TDFLOW

    with pytest.raises(InvalidWorkflow, match=words):
        TDFLOW.with_command(**{"command": "x", **given})


def test_a_workflow_with_a_command_is_read_again_from_its_snapshot() -> None:
    from pathlib import Path

    from agentforge_sessions.workflows.builtin import TDFLOW
    from agentforge_sessions.workflows.documents.workflow_document import read_agent_workflow
    from agentforge_sessions.workflows.documents.workflow_snapshot import snapshot_of

    made = TDFLOW.with_command("npm test -- --ci", report_path="reports/**/*.xml")
    assert read_agent_workflow(snapshot_of(made), Path("x")) == made
    assert len(made.command_gates) >= 3
    assert not made.needs_pytest
    assert not TDFLOW.command_gates
