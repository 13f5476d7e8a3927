"""Gates: whether a phase is passed, decided from files and from what running them gave.

The decisions are pure: files and a test run's result in, a verdict out. `run_gate` is the one
function with an effect, the call of the sandbox between the two. A gate sees a copy of the files,
so that running it twice, as after a kill, gives the same and leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from ..harness import PhaseResult
from .converters import as_tuple
from .gate_guest import TestRun, script_code
from .gate_port import GateExecution, GateSandbox
from .specification import Component
from .specification_document import read_specification
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
from .workflow import TEST_GATES, Gate

MAX_EVIDENCE_CHARS: Final = 12_000
"""The most that a verdict's evidence has, all lines together: it goes into the next prompt."""
_MAX_PIECE_CHARS: Final = 1_500
_TEST_CODES: Final = frozenset({0, 1, 2, 5})
"""pytest's exit codes for tests that passed, failed, could not all be collected, or are none."""
_REPORT: Final = (
    ("collected", list),
    ("tests", list),
    ("errors", list),
    ("stopped", list),
    ("tampered", list),
    ("component", dict),
)
_TEST_FILE: Final = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")


def _frozen_facts(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class Verdict:
    """What a gate decided.

    Attributes:
        gate: Its kind.
        passed: Whether the phase is passed.
        summary: Why, in one line.
        evidence: What the agent needs to know to do better; empty when there is nothing to say.
        duration_s: How long the gate ran in the sandbox, in seconds.
        facts: Counts, digests and names, as JSON has them.
    """

    gate: str
    passed: bool
    summary: str
    evidence: tuple[str, ...] = field(default=(), converter=as_tuple)
    duration_s: float = 0.0
    facts: Mapping[str, Any] = field(factory=dict, converter=_frozen_facts, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "gate": self.gate,
            "passed": self.passed,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "duration_s": self.duration_s,
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Verdict:
        """Read what `to_json` gave."""
        return cls(**{name: value[name] for name in _FIELDS})


_FIELDS: Final = ("gate", "passed", "summary", "evidence", "duration_s", "facts")


@frozen(kw_only=True)
class GateInput:
    """What a gate judges.

    Attributes:
        files: All files of the workspace, by path.
        component: The component that is developed, or None.
        written: The files that the phase's answer wrote.
        baseline: The facts of the last passed `tests_fail` gate, or None.
        answered: Questions that the person answered, with the answers.
        token: A text that nobody knows beforehand: it names the gate's result.
    """

    files: Mapping[str, bytes] = field(repr=False)
    component: Component | None = None
    written: tuple[str, ...] = field(default=(), converter=as_tuple)
    baseline: Mapping[str, Any] | None = None
    answered: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    token: str = "result"  # noqa: S105 (part of a file name)

    @property
    def locked(self) -> dict[str, str]:
        """The SHA-256 of each file that belongs to the tests."""
        return {
            path: hashlib.sha256(data).hexdigest()
            for path, data in sorted(self.files.items())
            if self.component is not None and is_test_path(self.component, path)
        }

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files that hold tests."""
        return tuple(path for path in self.locked if _TEST_FILE.fullmatch(path))


def is_test_path(component: Component, path: str) -> bool:
    """Whether a path is one of the component's tests, or in one of its test directories."""
    return any(
        path == place or (place.endswith("/") and path.startswith(place))
        for place in component.tests
    )


def run_gate(gate: Gate, given: GateInput, sandbox: GateSandbox) -> Verdict:
    """Judge a phase.

    Args:
        gate: What to judge by; every kind but `approval`, which only a person can decide.
        given: What to judge.
        sandbox: Runs what has to be run.

    Raises:
        GateUnavailable: It can't be judged on this machine.
    """
    early = _before(gate, given)
    if early is not None:
        return early
    if gate.kind in TEST_GATES:
        return _bounded(_run_tests(gate, given, sandbox))
    if gate.kind == "specification":
        return _bounded(_judge_specification(gate, given))
    if gate.kind == "script":
        return _bounded(_run_script(gate, given, sandbox))
    return Verdict(
        gate=gate.kind, passed=True, summary=f"{', '.join(gate.require)} there and not empty"
    )


def _before(gate: Gate, given: GateInput) -> Verdict | None:
    """Judge what needs no run."""
    missing = [path for path in gate.require if not given.files.get(path, b"").strip()]
    if missing:
        return _failed(
            gate,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing or empty",
            [f"The phase needs {path}; write it, with content." for path in missing],
        )
    if gate.tests_unchanged:
        return _changed_tests(gate, given)
    return None


def _changed_tests(gate: Gate, given: GateInput) -> Verdict | None:
    before = (given.baseline or {}).get("test_digests", {})
    now = given.locked
    changed = sorted(path for path in before if now.get(path) != before[path])
    added = sorted(path for path in now if path not in before)
    if not changed and not added:
        return None
    told = [f"changed or gone since the tests were passed as they are: {path}" for path in changed]
    told += [f"added since then: {path}" for path in added]
    return _failed(gate, f"{len(told)} test files are not those of the red phase", told)


def _failed(gate: Gate, summary: str, evidence: Iterable[str] = (), **facts: Any) -> Verdict:
    return Verdict(gate=gate.kind, passed=False, summary=summary, evidence=evidence, facts=facts)


def _bounded(verdict: Verdict) -> Verdict:
    kept: list[str] = []
    room = MAX_EVIDENCE_CHARS
    for number, piece in enumerate(verdict.evidence):
        cut = piece if len(piece) <= _MAX_PIECE_CHARS else _middle_out(piece)
        if len(cut) > room:
            kept.append(f"({len(verdict.evidence) - number} more are not shown.)")
            break
        kept.append(cut)
        room -= len(cut)
    return evolve(verdict, evidence=tuple(kept))


def _middle_out(text: str) -> str:
    half = _MAX_PIECE_CHARS // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"


# ------------------------------------------------------------------------------------------ tests


def _run_tests(gate: Gate, given: GateInput, sandbox: GateSandbox) -> Verdict:
    component = given.component
    if component is None:
        return _failed(gate, "there is no component to test")
    paths = given.test_files
    if not paths:
        return _failed(
            gate,
            "there is no test file",
            [f"Tests belong in {', '.join(component.tests)}; their files are named test_….py."],
        )
    run = TestRun(
        framework=gate.framework,
        paths=paths,
        module=component.module,
        location=component.location,
        placeholder=gate.kind == "tests_fail",
        report=f".gate-{given.token}.json",
    )
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
        told = [stop_in_words(one) for one in report["stopped"]] + _output(execution.result)
        summary = f"the tests could not be run ({gate.framework} ended with {report['code']})"
        verdict = _failed(gate, summary, told)
    elif isinstance(report, str):
        verdict = _failed(gate, report, _output(execution.result))
    elif report["tampered"] or rewritten:
        verdict = _failed(
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
    """Return what the run left, or say why it left nothing that can be used."""
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


def _output(result: PhaseResult) -> list[str]:
    told = []
    for name, text in (("stderr", result.stderr), ("stdout", result.stdout)):
        if text.strip():
            told.append(f"{name} (its end):\n{text.strip()[-_MAX_PIECE_CHARS:]}")
    return told


def judge_tests_fail(gate: Gate, given: GateInput, report: Mapping[str, Any]) -> Verdict:
    """Judge RED: every test is collected, runs and fails for the right reason."""
    component = given.component
    assert component is not None  # noqa: S101 (there is one wherever tests are run)
    tests: list[dict[str, Any]] = report["tests"]
    evidence = [uncollectable(one, component) for one in report["errors"]]
    right: list[str] = []
    for test in tests:
        problem = wrong_reason(test, component)
        if problem is None:
            right.append(test["id"])
        else:
            evidence.append(f"{test['id']}: {problem}{text_of(test)}")
    wrong = len(tests) - len(right)
    halted = not_run(report)
    estranged = estranged_from(component, report)
    evidence += [*halted, *estranged]
    if not tests and not evidence:
        evidence.append("No test was collected. Tests are functions or methods named test_….")
    others = {test["id"] for test in tests}.difference(right)
    uncovered = _uncovered(gate, component, right, others, "fails for the right reason")
    evidence += uncovered
    facts = {
        **_counts(report),
        "test_digests": given.locked,
        "tests": sorted(test["id"] for test in tests),
        **_coverage(component, right),
    }
    count = len(tests)
    if not evidence:
        summary = f"{count} tests collected, run, and failing for want of the implementation"
        return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)
    parts = []
    if report["errors"]:
        parts.append(f"{len(report['errors'])} test files can't be collected")
    if not tests:
        parts.append("no test ran")
    if wrong:
        parts.append(f"{wrong} of {count} tests do not fail for the right reason")
    if halted:
        parts.append("not every test came to its turn")
    if estranged:
        parts.append(f"the tests do not test {component.location}")
    if uncovered:
        parts.append(f"{len(uncovered)} acceptance criteria have no test")
    return _failed(gate, "; ".join(parts), evidence, **facts)


def judge_tests_pass(gate: Gate, given: GateInput, report: Mapping[str, Any]) -> Verdict:
    """Judge GREEN, REFACTOR and VERIFY: all tests are there, run and pass."""
    component = given.component
    assert component is not None  # noqa: S101 (there is one wherever tests are run)
    tests: list[dict[str, Any]] = report["tests"]
    bad = [test for test in tests if test["outcome"] != "passed"]
    evidence = [unimported(one) for one in report["errors"]]
    evidence += [
        f"{test['id']}: {test['outcome']}{error_in_words(test)}{text_of(test)}" for test in bad
    ]
    names = {test["id"] for test in tests}
    expected = set((given.baseline or {}).get("tests", ()))
    gone = sorted(expected - names)
    if gone:
        named = ", ".join(gone[:MAX_NAMED])
        evidence.append(f"These tests of the red phase were not run: {named}")
    halted = not_run(report, besides=gone)
    estranged = estranged_from(component, report)
    evidence += [*halted, *estranged]
    if not tests and not evidence:
        evidence.append("No test was collected.")
    passed = sorted(test["id"] for test in tests if test["outcome"] == "passed")
    uncovered = _uncovered(gate, component, passed, names.difference(passed), "passes")
    evidence += uncovered
    facts = {**_counts(report), "test_digests": given.locked, **_coverage(component, passed)}
    if not evidence:
        criteria = len(component.criteria)
        told = f"; {criteria} of {criteria} acceptance criteria covered" if criteria else ""
        summary = f"{len(passed)} tests pass{told if gate.covers_criteria else ''}"
        return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)
    parts = []
    if report["errors"]:
        parts.append(f"{len(report['errors'])} test files can't be imported")
    if bad or not tests:
        parts.append(f"{len(bad)} of {len(tests)} tests do not pass")
    if gone:
        parts.append(f"{len(gone)} tests were not run")
    if halted:
        parts.append("not every test came to its turn")
    if estranged:
        parts.append(f"the tests do not test {component.location}")
    if uncovered:
        parts.append(f"{len(uncovered)} acceptance criteria have no passing test")
    return _failed(gate, "; ".join(parts), evidence, **facts)


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


def _coverage(component: Component, names: Sequence[str]) -> dict[str, Any]:
    return {
        "criteria": {
            one.criterion_id: len(covering(one.in_test_names, names)) for one in component.criteria
        }
    }


def _uncovered(
    gate: Gate, component: Component, names: Sequence[str], others: Iterable[str], does: str
) -> list[str]:
    """Say which criteria have no test among `names`, and which of them have one of `others`."""
    if not gate.covers_criteria:
        return []
    told = []
    for one in component.criteria:
        if covering(one.in_test_names, names):
            continue
        those = ", ".join(covering(one.in_test_names, others)[:MAX_NAMED])
        what = f"test that carries {one.in_test_names} in its name"
        if those:
            what = f"{what} and {does} ({those})"
        told.append(f"{one.criterion_id} has no {what}: {one.text}")
    return told


# ---------------------------------------------------------------------------------- other kinds


def _judge_specification(gate: Gate, given: GateInput) -> Verdict:
    evidence: list[str] = []
    components = criteria = 0
    for path in gate.require:
        specification, faults = read_specification(given.files[path])
        evidence += [f"{path}: {fault}" for fault in faults]
        if specification is None:
            continue
        components += len(specification.components)
        criteria += sum(len(one.criteria) for one in specification.components)
        written = {_flat(question): _flat(said) for question, said in specification.clarifications}
        evidence += [
            f"{path}: clarifications lacks what the person answered: {question!r} was answered "
            f"with {answer!r}; write both word for word"
            for question, answer in dict(given.answered).items()  # asked again: the last answer
            if written.get(_flat(question)) != _flat(answer)
        ]
    facts = {"components": components, "criteria_count": criteria, "faults": len(evidence)}
    if evidence:
        return _failed(gate, f"{len(evidence)} faults in the specification", evidence, **facts)
    return Verdict(
        gate=gate.kind,
        passed=True,
        summary=f"{components} components, {criteria} acceptance criteria, no fault",
        facts=facts,
    )


def _flat(text: str) -> str:
    return " ".join(text.split())


def _run_script(gate: Gate, given: GateInput, sandbox: GateSandbox) -> Verdict:
    assert gate.code is not None  # noqa: S101 (the workflow was checked)
    execution = sandbox.run(
        script_code(gate.code, sorted(given.files)),
        files=given.files,
        report=f".gate-{given.token}.json",
        deadline_s=gate.deadline_s,
    )
    result = execution.result
    if result.success:
        verdict = Verdict(gate=gate.kind, passed=True, summary="exit code 0")
    else:
        problems = result.limit_problems()
        if result.trapped is None:
            problems.insert(0, f"exit code {result.exit_code}")
        verdict = _failed(gate, ", ".join(problems), _output(result))
    return evolve(verdict, duration_s=result.duration_s)
