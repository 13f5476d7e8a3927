"""Judge a phase by the run of a project's own tests; pure.

baseline: the command on the base, before anything was written
RED:      the new tests, by name, fail because the implementation is missing; the old ones pass
GREEN, REFACTOR, VERIFY: all tests are there again, and all pass
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ...base.errors import counted
from ..documents.specification import Component, Criterion
from ..gate_port import CommandExecution
from ..workflow import Gate
from .test_reports import Case, Outcome, Outcomes, covering, first_line, gathered, named
from .verdict import (
    MAX_PIECE_CHARS,
    GateInput,
    Objections,
    Verdict,
    do_not,
    failed,
    output_of,
    passed,
)

WEAK: Final = "the exit code alone was judged, which is weak evidence: no test was seen by name"
_SYNTAX: Final = re.compile(
    r"(?:SyntaxError|IndentationError|TabError|ParseError): |Unexpected token|cannot parse|"
    r"fixture '[^']*' not found|error: expected .* found|undefined: testing",
)
"""Messages of several frameworks for a test that is itself broken."""
_MISSING_EXPORT: Final = re.compile(r"does not provide an export named")
"""JavaScript's message for a name that is still missing; it reports it as a syntax error."""
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_NOT_LOADED: Final = re.compile(
    r"collection failure|failed to run|Failed Suites|No test suite found|\[build failed\]|"
    r"\[setup failed\]",
)


def judge_red(gate: Gate, given: GateInput, now: Outcomes, before: Outcomes | None) -> Verdict:
    """Judge RED: the new tests fail because the implementation is missing, the old ones pass."""
    old = before.cases if before is not None else {}
    new = sorted(set(now.cases) - set(old))
    problems = {name: _why_not_red(now.cases[name], given.names or given.files) for name in new}
    right = [name for name, problem in problems.items() if problem is None]
    wrong = [
        f"{name}: {problem}{_text(now.cases[name])}"
        for name, problem in problems.items()
        if problem is not None
    ]
    found = Objections()
    if not new:
        every = "Every test of this run was there before; the phase has to add tests."
        found.add("there is no new test", [every])
    found.add(
        f"{len(wrong)} of {len(new)} new tests {do_not(len(wrong))} fail for the right reason",
        wrong,
    )
    bad = () if before is None else before.bad
    _add_regressions(found, old, now, _lost(old, bad, now, given))
    doubled = [name for name in new if name in now.duplicates]
    found.add(
        f"{len(doubled)} new tests have no name of their own",
        [f"These new tests share their name with another: {named(doubled)}"] if doubled else [],
    )
    found.uncovered("test", _uncovered(gate, given.component, right))
    success = (
        counted(len(new), "new test fails", "new tests fail") + " for want of the implementation"
    )
    if old:
        success += f"; {len(old)} older ones are as before"
    facts = {
        **_facts(given, now, right),
        "tests": right,
        "all_tests": sorted(now.cases),
        "skipped_before": now.having(Outcome.SKIPPED),
        "failed_before": sorted(name for name, case in old.items() if case.outcome.is_bad),
    }
    return found.verdict(gate, success, facts)


def judge_green(
    gate: Gate, given: GateInput, now: Outcomes, execution: CommandExecution
) -> Verdict:
    """Judge GREEN, REFACTOR and VERIFY: every test is there again and passes.

    Tests that failed on the base may still fail, and are named; tests skipped in RED may be
    skipped.
    """
    baseline = given.baseline or {}
    before = given.before if given.before is not None else gathered(())
    expected = {*baseline.get("tests", ()), *baseline.get("all_tests", ()), *before.cases}
    known = {*baseline.get("failed_before", ()), *before.bad}
    skippable = {*baseline.get("skipped_before", ()), *before.having(Outcome.SKIPPED)}
    red = set(baseline.get("tests", ()))
    lost = _lost(expected, known, now, given)
    bad = [name for name in now.bad if name not in known]
    idle = [
        name
        for name in now.having(Outcome.SKIPPED)
        if name in red or (name in expected and name not in skippable)
    ]
    passing = now.having(Outcome.PASSED)
    still = sorted(known & {*now.bad})
    found = Objections()
    found.add(
        f"{len(bad)} of {len(now.cases)} tests {do_not(len(bad))} pass",
        [f"{name}: {now.cases[name].outcome.in_words}{_text(now.cases[name])}" for name in bad],
    )
    found.add(
        counted(len(idle), "test is skipped", "tests are skipped"),
        [f"{name}: is skipped; it has to run." for name in idle],
    )
    found.add(counted(len(lost), "test was not run", "tests were not run"), _lost_in_words(lost))
    if not passing:
        found.short.append("no test passed")
    found.uncovered("passing test", _uncovered(gate, given.component, passing))
    found.evidence = found.evidence or (output_of(execution.result) if found.short else [])
    success = counted(len(passing), "test passes", "tests pass")
    if still:
        success += f"; {counted(len(still), 'fails as it', 'fail as they')} did on the base"
    return found.verdict(gate, success, {**_facts(given, now, passing), "still_failing": still})


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
        return passed(gate, summary, **facts, tests=[], test_digests=given.locked)
    why = "the tests have to fail before there is an implementation" if wanted else "they fail"
    return failed(gate, f"{summary}; {why}", output_of(result), **facts)


# --------------------------------------------------------------------------------------- the parts


def _why_not_red(case: Case, files: Iterable[str]) -> str | None:
    """Return why a new test's outcome is not that of a red test, or None.

    A report says less than Python's own exceptions do: a test that passes, is skipped or is broken
    is rejected, and so is a file that could not be loaded, because its tests have no names.
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
    """Return the criteria without a test among these."""
    if not gate.covers_criteria or component is None:
        return []
    return [
        f"{one.criterion_id} has no test that carries {one.in_test_names} or {one.criterion_id} in "
        f"its name: {one.text}"
        for one in component.criteria
        if not _covering(one, names)
    ]


def _covering(criterion: Criterion, names: Sequence[str]) -> list[str]:
    """Return the tests whose name carries a criterion's id, as `ac_01` or in words as `AC-01`."""
    plain = [_NO_WORD.sub("_", name.lower()) for name in names]
    return covering(criterion.in_test_names, plain)


def _is_a_file(name: str, files: Iterable[str]) -> bool:
    """Return whether a case is named after a file of the workspace, not after a test in it."""
    last = _flat(name.rsplit("::", 1)[-1])
    return any(last == _flat(path) or last.endswith("." + _flat(path)) for path in files)


def _flat(path: str) -> str:
    """Return a path in the form of a module name, without its suffix."""
    stem, dot, ending = path.strip("/").rpartition(".")
    plain = stem if dot and len(ending) <= 4 else path.strip("/")
    return plain.replace("/", ".")


def _lost(
    expected: Iterable[str], failed: Collection[str], now: Outcomes, given: GateInput
) -> list[str]:
    """Return the tests that have to be there and are not.

    A file that could not be loaded is a failed test of its name. Once it is loaded, there are its
    tests instead.
    """
    files = given.names or given.files
    return sorted(
        name
        for name in set(expected) - set(now.cases)
        if not (name in failed and _is_a_file(name, files))
    )


def _add_regressions(
    found: Objections, old: Mapping[str, Case], now: Outcomes, lost: Sequence[str]
) -> None:
    """Add the old tests that are missing, and those that no longer pass."""
    found.add(
        counted(len(lost), "older test was not run", "older tests were not run"),
        _lost_in_words(lost),
    )
    broken = [
        now.cases[name]
        for name, case in sorted(old.items())
        if case.outcome is Outcome.PASSED
        and name in now.cases
        and now.cases[name].outcome is not Outcome.PASSED
    ]
    found.add(
        counted(len(broken), "older test does", "older tests do") + " not pass any more",
        [
            f"{case.name}: passed before, and is {case.outcome.in_words} now.{_text(case)}"
            for case in broken
        ],
    )


def _lost_in_words(lost: Sequence[str]) -> list[str]:
    return [f"These tests were there before, and were not run: {named(lost)}"] if lost else []


def _text(case: Case) -> str:
    text = case.text.strip()[:MAX_PIECE_CHARS]
    return f"\n{text}" if text else ""


def _facts(given: GateInput, now: Outcomes, names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of a run, and the criteria that some of its tests cover."""
    found = {
        "collected": len(now.cases),
        "passed": len(now.having(Outcome.PASSED)),
        "failed": len(now.bad),
        "skipped": len(now.having(Outcome.SKIPPED)),
        "duplicates": len(now.duplicates),
        "test_digests": given.locked,
    }
    if given.component is not None:
        criteria = given.component.criteria
        found["criteria"] = {one.criterion_id: len(_covering(one, names)) for one in criteria}
    return found
