"""Gates that run tests: judge a phase by the run of a component's tests.

The decisions are pure; `run_tests` has the one effect, the call of the sandbox before them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from ...base.errors import counted
from ..documents.specification import Component
from ..gate_port import GateExecution, GateSandbox, sandbox_with
from ..workflow import Gate
from .gate_guest import TestRun
from .test_reports import (
    MAX_NAMED,
    covering,
    error_in_words,
    estranged_from,
    not_run,
    stop_in_words,
    text_of,
    uncollectable,
    unimported,
    wrong_reason,
)
from .verdict import GateInput, Objections, Verdict, do_not, failed, output_of

_TEST_CODES: Final = frozenset({0, 1, 2, 5})
"""pytest's exit codes for tests that passed, failed, were not all collected, or do not exist."""
_REPORT: Final = (
    ("collected", list),
    ("tests", list),
    ("errors", list),
    ("stopped", list),
    ("tampered", list),
    ("component", dict),
)


def run_tests(gate: Gate, given: GateInput, sandbox: GateSandbox) -> Verdict:
    """Run a component's tests and judge the result.

    Raises:
        GateUnavailable: The tests can't run on this machine.
    """
    component = given.component
    if component is None:
        return failed(gate, "there is no component to test")
    paths = given.test_files
    if not paths:
        return failed(
            gate,
            "there is no test file",
            [f"Tests belong in {', '.join(component.tests)}; their files are named test_….py."],
        )
    run = TestRun(
        framework=gate.framework,
        paths=paths,
        module=component.module,
        location=component.location,
        import_root=component.root,
        placeholder=gate.kind == "tests_fail",
        report=f".gate-{given.token}.json",
    )
    sandbox = sandbox_with(sandbox, gate.packages)
    execution = sandbox.run(
        run.code(sandbox.places),
        files=given.files,
        report=run.report,
        deadline_s=gate.deadline_s,
        kit=gate.framework == "pytest",
    )
    report = _read_report(execution)
    rewritten = [
        f"{path} was changed while the tests ran"
        for path in sorted({*execution.result.files_modified, *execution.result.files_deleted})
        if path in given.locked and path.endswith(".py")
    ]
    if not isinstance(report, str) and report["code"] not in _TEST_CODES:
        evidence = [stop_in_words(one) for one in report["stopped"]] + output_of(execution.result)
        summary = f"the tests could not be run ({gate.framework} ended with {report['code']})"
        verdict = failed(gate, summary, evidence)
    elif isinstance(report, str):
        verdict = failed(gate, report, output_of(execution.result))
    elif report["tampered"] or rewritten:
        verdict = failed(
            gate,
            "tests or their framework were tampered with while they ran, so they prove nothing",
            [f"{one}." for one in (*report["tampered"], *rewritten)],
            **_counts(report),
        )
    elif gate.kind == "tests_fail":
        verdict = judge_tests_fail(gate, given, report)
    else:
        verdict = judge_tests_pass(gate, given, report)
    return evolve(verdict, duration_s=execution.result.duration_s)


def _read_report(execution: GateExecution) -> dict[str, Any] | str:
    """Return the report of a run, or why there is no usable one."""
    result = execution.result
    limits = result.limit_problems()
    if result.trapped is not None:
        return f"the tests did not come to their end: {', '.join(limits)}"
    if execution.report is None:
        return f"the tests ended the interpreter (exit code {result.exit_code}) before their result"
    try:
        report = json.loads(execution.report)
        for name, kind in _REPORT:
            if not isinstance(report[name], kind):
                return "the tests left a result that can't be read"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "the tests left a result that can't be read"
    return dict(report)


def judge_tests_fail(gate: Gate, given: GateInput, report: Mapping[str, Any]) -> Verdict:
    """Judge RED: every test is collected, runs and fails for the right reason."""
    component = given.component
    assert component is not None  # noqa: S101 (test gates always have one)
    tests: list[dict[str, Any]] = report["tests"]
    judged = [(test, wrong_reason(test, component)) for test in tests]
    right = [test["id"] for test, problem in judged if problem is None]
    wrong = [
        f"{test['id']}: {problem}{text_of(test)}" for test, problem in judged if problem is not None
    ]
    found = Objections()
    errors = [uncollectable(one, component) for one in report["errors"]]
    found.add(f"{counted(len(errors), 'test file')} can't be collected", errors)
    if not tests:
        found.short.append("no test ran")
    found.add(
        f"{len(wrong)} of {len(tests)} tests {do_not(len(wrong))} fail for the right reason", wrong
    )
    _add_unrun(found, component, report)
    if not tests and not found.evidence:
        found.evidence.append("No test was collected. Tests are functions or methods named test_….")
    others = {test["id"] for test in tests}.difference(right)
    uncovered = _uncovered(gate, component, right, others, "fails for the right reason")
    found.uncovered("test", uncovered)
    facts = {"tests": sorted(test["id"] for test in tests), **_facts(given, report, right)}
    success = (
        f"{counted(len(tests), 'test')} collected, run, and failing for want of the implementation"
    )
    return found.verdict(gate, success, facts)


def judge_tests_pass(gate: Gate, given: GateInput, report: Mapping[str, Any]) -> Verdict:
    """Judge GREEN, REFACTOR and VERIFY: all tests are there, run and pass."""
    component = given.component
    assert component is not None  # noqa: S101 (test gates always have one)
    tests: list[dict[str, Any]] = report["tests"]
    names = {test["id"] for test in tests}
    passing = sorted(test["id"] for test in tests if test["outcome"] == "passed")
    bad = [
        f"{test['id']}: {test['outcome']}{error_in_words(test)}{text_of(test)}"
        for test in tests
        if test["outcome"] != "passed"
    ]
    missing = sorted(set((given.baseline or {}).get("tests", ())) - names)
    found = Objections()
    errors = [unimported(one) for one in report["errors"]]
    found.add(f"{counted(len(errors), 'test file')} can't be imported", errors)
    short = f"{len(bad)} of {len(tests)} tests {do_not(len(bad))} pass"
    found.add(short, bad)
    if not tests:
        found.short.append(short)
    first = ", ".join(missing[:MAX_NAMED])
    found.add(
        counted(len(missing), "test was not run", "tests were not run"),
        [f"These tests of the red phase were not run: {first}"] if missing else [],
    )
    _add_unrun(found, component, report, besides=missing)
    if not tests and not found.evidence:
        found.evidence.append("No test was collected.")
    found.uncovered(
        "passing test",
        _uncovered(gate, component, passing, names.difference(passing), "passes"),
    )
    criteria = len(component.criteria)
    success = counted(len(passing), "test passes", "tests pass")
    if criteria and gate.covers_criteria:
        success += f"; {criteria} of {criteria} acceptance criteria covered"
    return found.verdict(gate, success, _facts(given, report, passing))


def _add_unrun(
    found: Objections,
    component: Component,
    report: Mapping[str, Any],
    besides: Sequence[str] = (),
) -> None:
    """Add what keeps existing tests from testing the component."""
    found.add("not every test came to its turn", not_run(report, besides=besides))
    estranged = estranged_from(component, report)
    found.add(f"the tests do not test {component.location}", estranged)


def _facts(given: GateInput, report: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of a report, and the criteria that some of its tests cover."""
    criteria = () if given.component is None else given.component.criteria
    return {
        **_counts(report),
        "test_digests": given.locked,
        "criteria": {one.criterion_id: len(covering(one.in_test_names, names)) for one in criteria},
    }


def _counts(report: Mapping[str, Any]) -> dict[str, Any]:
    outcomes = [test["outcome"] for test in report["tests"]]
    return {
        "framework": report.get("framework"),
        "collected": len(report["collected"]),
        "passed": outcomes.count("passed"),
        "failed": outcomes.count("failed"),
        "skipped": outcomes.count("skipped"),
        "errors": len(report["errors"]),
    }


def _uncovered(
    gate: Gate, component: Component, names: Sequence[str], others: Iterable[str], does: str
) -> list[str]:
    """Return the criteria without a test among `names`, with the tests of `others` they have."""
    if not gate.covers_criteria:
        return []
    uncovered = []
    for one in component.criteria:
        if covering(one.in_test_names, names):
            continue
        those = ", ".join(covering(one.in_test_names, others)[:MAX_NAMED])
        what = f"test that carries {one.in_test_names} in its name"
        if those:
            what = f"{what} and {does} ({those})"
        uncovered.append(f"{one.criterion_id} has no {what}: {one.text}")
    return uncovered
