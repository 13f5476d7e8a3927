"""What the run of a project's own tests says about a phase; pure.

baseline: the command on the base, before anything was written
RED:      the new tests, by name, fail for want of the implementation; the old ones still pass
GREEN, REFACTOR, VERIFY: all are there again, and all pass
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...base.errors import counted
from ..documents.specification import Component, Criterion
from ..gate_port import CommandExecution
from ..workflow import Gate
from .suite_outcomes import Case, Outcome, Outcomes, gathered
from .test_reports import covering, first_line, named
from .verdict import MAX_PIECE_CHARS, GateInput, Verdict, do_not, failed, output_of

WEAK: Final = "the exit code alone was judged, which is weak evidence: no test was seen by name"
_SYNTAX: Final = re.compile(
    r"(?:SyntaxError|IndentationError|TabError|ParseError): |Unexpected token|cannot parse|"
    r"fixture '[^']*' not found|error: expected .* found|undefined: testing",
)
"""What a failure says when the test itself is broken, in the words of several frameworks."""
_MISSING_EXPORT: Final = re.compile(r"does not provide an export named")
"""What a JavaScript module says of a name that is missing still; it calls that a syntax error."""
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_NOT_LOADED: Final = re.compile(
    r"collection failure|failed to run|Failed Suites|No test suite found|\[build failed\]|"
    r"\[setup failed\]",
)


def judge_red(gate: Gate, given: GateInput, now: Outcomes, before: Outcomes | None) -> Verdict:
    """Judge RED: the new tests fail for want of the implementation, the old ones still pass."""
    old = before.cases if before is not None else {}
    new = sorted(set(now.cases) - set(old))
    evidence: list[str] = []
    right: list[str] = []
    for name in new:
        problem = _why_not_red(now.cases[name], given.names or given.files)
        if problem is None:
            right.append(name)
        else:
            evidence.append(f"{name}: {problem}{_text(now.cases[name])}")
    wrong = len(evidence)
    if not new:
        evidence.append("Every test of this run was there before; the phase has to add tests.")
    lost, broken = _regressions(old, now)
    evidence += _lost_in_words(lost) + _broken_in_words(broken, now)
    doubled = [name for name in new if name in now.duplicates]
    if doubled:
        evidence.append(f"These new tests share their name with another: {named(doubled)}")
    uncovered = _uncovered(gate, given.component, right)
    evidence += uncovered
    facts = {
        **_counts(now),
        **_coverage(given.component, right),
        "test_digests": given.locked,
        "tests": right,
        "all_tests": sorted(now.cases),
        "skipped_before": now.having(Outcome.SKIPPED),
        "failed_before": sorted(name for name, case in old.items() if case.outcome.is_bad),
    }
    if not evidence:
        count = (
            counted(len(new), "new test fails", "new tests fail")
            + " for want of the implementation"
        )
        summary = f"{count}; {len(old)} older ones are as before" if old else count
        return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)
    parts = []
    if not new:
        parts.append("there is no new test")
    if wrong:
        parts.append(f"{wrong} of {len(new)} new tests {do_not(wrong)} fail for the right reason")
    parts += _regressions_in_short(lost, broken)
    if doubled:
        parts.append(f"{len(doubled)} new tests have no name of their own")
    if uncovered:
        parts.append(
            counted(
                len(uncovered),
                "acceptance criterion has no test",
                "acceptance criteria have no test",
            )
        )
    return failed(gate, "; ".join(parts), evidence, **facts)


def judge_green(
    gate: Gate, given: GateInput, now: Outcomes, execution: CommandExecution
) -> Verdict:
    """Judge GREEN, REFACTOR and VERIFY: every test is there again and passes.

    What failed on the base may fail still, and is told; what was skipped in RED may be skipped.
    """
    baseline = given.baseline or {}
    before = given.before if given.before is not None else gathered(())
    expected = {*baseline.get("tests", ()), *baseline.get("all_tests", ()), *before.cases}
    known = {*baseline.get("failed_before", ()), *before.bad}
    skippable = {*baseline.get("skipped_before", ()), *before.having(Outcome.SKIPPED)}
    red = set(baseline.get("tests", ()))
    lost = sorted(expected - set(now.cases))
    bad = [name for name in now.bad if name not in known]
    idle = [
        name
        for name in now.having(Outcome.SKIPPED)
        if name in red or (name in expected and name not in skippable)
    ]
    evidence = [
        f"{name}: {now.cases[name].outcome.in_words}{_text(now.cases[name])}" for name in bad
    ]
    evidence += [f"{name}: is skipped; it has to run." for name in idle]
    evidence += _lost_in_words(lost)
    passed = now.having(Outcome.PASSED)
    uncovered = _uncovered(gate, given.component, passed)
    evidence += uncovered
    facts = {
        **_counts(now),
        **_coverage(given.component, passed),
        "test_digests": given.locked,
        "still_failing": sorted(known & {*now.bad}),
    }
    if not evidence and passed:
        still = facts["still_failing"]
        told = (
            f"; {counted(len(still), 'fails as it', 'fail as they')} did on the base"
            if still
            else ""
        )
        summary = counted(len(passed), "test passes", "tests pass") + told
        return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)
    parts = []
    if bad:
        parts.append(f"{len(bad)} of {len(now.cases)} tests {do_not(len(bad))} pass")
    if idle:
        parts.append(counted(len(idle), "test is skipped", "tests are skipped"))
    if lost:
        parts.append(counted(len(lost), "test was not run", "tests were not run"))
    if not passed:
        parts.append("no test passed")
    if uncovered:
        parts.append(
            counted(
                len(uncovered),
                "acceptance criterion has no passing test",
                "acceptance criteria have no passing test",
            )
        )
    return failed(gate, "; ".join(parts), evidence or output_of(execution.result), **facts)


def judge_exit_code(gate: Gate, given: GateInput, execution: CommandExecution) -> Verdict:
    """Judge by the exit code alone."""
    result = execution.result
    if result.trapped is not None:
        limits = ", ".join(result.limit_problems())
        return failed(gate, f"the tests did not come to their end: {limits}", output_of(result))
    wanted = gate.kind == "tests_fail"
    fails = result.exit_code != 0
    summary = f"exit code {result.exit_code}; {WEAK}"
    facts = {"strength": "weak", "exit_code": result.exit_code}
    if fails == wanted:
        return Verdict(
            gate=gate.kind,
            passed=True,
            summary=summary,
            facts={**facts, "tests": [], "test_digests": given.locked},
        )
    why = "the tests have to fail before there is an implementation" if wanted else "they fail"
    return failed(gate, f"{summary}; {why}", output_of(result), **facts)


# --------------------------------------------------------------------------------------- the parts


def _why_not_red(case: Case, files: Iterable[str]) -> str | None:
    """Return why a new test's outcome is not that of a red test, or None.

    A report says less than Python's own exceptions do: a test that passes, is skipped or is broken
    is refused, and so is a file that could not be loaded, since its tests have no names.
    """
    if case.outcome is Outcome.PASSED:
        return "passes before there is an implementation, so it tests nothing of it."
    if case.outcome is Outcome.SKIPPED:
        return "is skipped; a red test has to run."
    if not _MISSING_EXPORT.search(case.text) and _SYNTAX.search(case.text):
        return f"is broken itself: {first_line(case.text)}. Mend the test."
    if _NOT_LOADED.search(case.text) or _is_a_file(case.name, files):
        return (
            "could not be loaded, so its tests have no names yet. Use what is still missing "
            "within the tests only."
        )
    return None


def _uncovered(gate: Gate, component: Component | None, names: Sequence[str]) -> list[str]:
    """Return which criteria have no test among these."""
    if not gate.covers_criteria or component is None:
        return []
    return [
        f"{one.criterion_id} has no test that carries {one.in_test_names} or {one.criterion_id} in "
        f"its name: {one.text}"
        for one in component.criteria
        if not _covering(one, names)
    ]


def _coverage(component: Component | None, names: Sequence[str]) -> dict[str, Any]:
    if component is None:
        return {}
    return {
        "criteria": {one.criterion_id: len(_covering(one, names)) for one in component.criteria}
    }


def _covering(criterion: Criterion, names: Sequence[str]) -> list[str]:
    """Return the tests whose name carries a criterion's id, as `ac_01` or in words as `AC-01`."""
    plain = [_NO_WORD.sub("_", name.lower()) for name in names]
    return covering(criterion.in_test_names, plain)


def _is_a_file(name: str, files: Iterable[str]) -> bool:
    """Return whether a case is named for a file of the workspace, and not for a test in it."""
    last = _flat(name.rsplit("::", 1)[-1])
    return any(last == _flat(path) or last.endswith("." + _flat(path)) for path in files)


def _flat(path: str) -> str:
    """Return a path as modules are named, without its ending."""
    stem, dot, ending = path.strip("/").rpartition(".")
    plain = stem if dot and len(ending) <= 4 else path.strip("/")
    return plain.replace("/", ".")


def _regressions(old: Mapping[str, Case], now: Outcomes) -> tuple[list[str], list[str]]:
    """Return the old tests that are not there any more, and those that do not pass any more."""
    lost = sorted(set(old) - set(now.cases))
    broken = [
        name
        for name, case in sorted(old.items())
        if case.outcome is Outcome.PASSED
        and name in now.cases
        and now.cases[name].outcome is not Outcome.PASSED
    ]
    return lost, broken


def _lost_in_words(lost: Sequence[str]) -> list[str]:
    return [f"These tests were there before, and were not run: {named(lost)}"] if lost else []


def _broken_in_words(broken: Iterable[str], now: Outcomes) -> list[str]:
    return [
        f"{name}: passed before, and is {now.cases[name].outcome.in_words} now."
        f"{_text(now.cases[name])}"
        for name in broken
    ]


def _regressions_in_short(lost: Sequence[str], broken: Sequence[str]) -> list[str]:
    parts = []
    if lost:
        parts.append(counted(len(lost), "older test was not run", "older tests were not run"))
    if broken:
        parts.append(
            counted(len(broken), "older test does", "older tests do") + " not pass any more"
        )
    return parts


def _text(case: Case) -> str:
    text = case.text.strip()[:MAX_PIECE_CHARS]
    return f"\n{text}" if text else ""


def _counts(now: Outcomes) -> dict[str, Any]:
    return {
        "collected": len(now.cases),
        "passed": len(now.having(Outcome.PASSED)),
        "failed": len(now.bad),
        "skipped": len(now.having(Outcome.SKIPPED)),
        "duplicates": len(now.duplicates),
    }
