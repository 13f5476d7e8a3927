"""Describe the result of a test run in words; pure.

`workflows.gates.gate_guest` writes the result in the sandbox, `suite_gates` judges by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from ..documents.specification import Component

MAX_NAMED: Final = 30
"""The most tests named in one line."""
_MISSING_KINDS: Final = frozenset({"NotImplementedError"})
_ASSERTIONS: Final = frozenset({"AssertionError", "Failed"})
"""`Failed` is what pytest raises for `pytest.fail`, and for `pytest.raises` without an error."""


_NO_FAILURE: Final = {
    "passed": "passes before there is an implementation, so it tests nothing of it.",
    "skipped": "is skipped; a red test has to run.",
    "unfinished": "did not come to its end; a red test has to fail.",
}
MAX_CASES: Final = 200_000
MAX_TEXT_CHARS: Final = 4_000


def wrong_reason(test: Mapping[str, Any], component: Component) -> str | None:
    """Return why a test's outcome is not that of a red test, or None.

    The right reasons: the implementation is missing (a placeholder was used, the module or a name
    of it can't be imported), the component's own code raised something, or, in a test that has
    reached the component, an assertion failed or `NotImplementedError` was raised. A test
    framework's own complaint is none.
    """
    if test["outcome"] in _NO_FAILURE:
        return _NO_FAILURE[test["outcome"]]
    error = test.get("error")
    if error is None:
        return "fails without an exception."
    kinds = set(error["kinds"])
    where = error.get("where")
    own = where is not None and where[0] == component.location
    judging = bool(kinds & (_MISSING_KINDS | _ASSERTIONS)) and "SyntaxError" not in kinds
    complaint = "Failed" in kinds and where is None  # raised by pytest itself, not by a test
    right = bool(
        error["missing"]
        or (judging and test["reached"] and not complaint)
        or ("ImportError" in kinds and (error.get("name") or "") in _parents(component.module))
        or ("AttributeError" in kinds and f"module '{component.module}'" in error["message"])
    )
    if "SyntaxError" in kinds and (error.get("file") or "").endswith(component.location):
        return "fails because the component has a syntax error."
    if right or (own and "SyntaxError" not in kinds):
        return None
    return _wrong_in_words(error, component, idle=judging and not complaint)


def _wrong_in_words(error: Mapping[str, Any], component: Component, *, idle: bool) -> str:
    """Return what is wrong with a red test's failure, and what to do."""
    where = error.get("where")
    at = f" at {where[0]}:{where[1]}" if where else ""
    if "async def" in error["message"] and where is None:
        return (
            "is a coroutine, and no plugin is there that runs it. Write a plain function; where "
            "the component has coroutines, drive them with `send`."
        )
    if idle:
        return (
            f"fails without having used {component.module}{at}: "
            f"{first_line(error['message'])}. No implementation can make it pass; have it call "
            "the component, or compare what the component offers."
        )
    return (
        f"fails for the wrong reason: {error['exception']}{at}: {first_line(error['message'])}. "
        "Mend the test; it has to fail because the implementation is missing."
    )


def _parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def uncollectable(one: Mapping[str, Any], component: Component) -> str:
    """Return why a test file can't be collected in RED."""
    error = one.get("error")
    if error is None:
        return f"{one['id']} can't be collected:\n{one['text']}"
    if error["missing"]:
        return (
            f"{one['id']} can't be collected, because it uses {component.module} while it is "
            f"imported ({first_line(error['message'])}). Use it within the tests only."
        )
    line = error.get("line") or (error["where"][1] if error.get("where") else None)
    at = f", line {line}" if line else ""
    what = f"{error['exception']}{at}: {first_line(error['message'])}"
    return (
        f"{one['id']} can't be collected: {what}. "
        f"It has to be importable before the component exists.\n{one['text']}"
    )


def not_run(report: Mapping[str, Any], besides: Sequence[str] = ()) -> list[str]:
    """Return what kept collected tests from running."""
    ran = {test["id"] for test in report["tests"]}
    left = sorted(set(report["collected"]) - ran - set(besides))
    stops = [stop_in_words(one) for one in report["stopped"]]
    if left:
        stops.append(f"These tests were collected and not run: {', '.join(left[:MAX_NAMED])}")
    return stops


def stop_in_words(error: Mapping[str, Any]) -> str:
    """Return what stopped the whole run."""
    where = f" at {error['where'][0]}:{error['where'][1]}" if error.get("where") else ""
    return (
        f"The run of the tests was stopped by {error['exception']}{where}: "
        f"{first_line(error['message'])}. Neither tests nor the component may end it."
    )


def estranged_from(component: Component, report: Mapping[str, Any]) -> list[str]:
    """Return that the tests ran without the component's own file, if they did."""
    found = report["component"]
    if found["executed"] or report["errors"] or not report["tests"]:
        return []
    origin = found["origin"]
    if origin is not None and origin != component.location:
        return [
            f"The tests took {component.module} from {origin}, and not from {component.location}; "
            "no other file may go by that name."
        ]
    if found["asked"]:
        return []
    return [
        f"No test imports {component.module}, so the tests show nothing of {component.location}."
    ]


def unimported(one: Mapping[str, Any]) -> str:
    """Return why a test file can't be imported."""
    error = one.get("error")
    problem = f": {error['exception']}: {first_line(error['message'])}" if error else ""
    return f"{one['id']} can't be imported{problem}\n{one['text']}"


def error_in_words(test: Mapping[str, Any]) -> str:
    """Return a test's error in brackets, if it has one."""
    error = test.get("error")
    return "" if error is None else f" ({error['exception']}: {first_line(error['message'])})"


def text_of(test: Mapping[str, Any]) -> str:
    """Return the framework's output about a test, on lines of its own."""
    text = (test.get("text") or "").strip()
    return f"\n{text}" if text else ""


def first_line(text: str) -> str:
    """Return a message's first line."""
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else "no message"


def covering(criterion: str, names: Iterable[str]) -> list[str]:
    """Return the tests whose name carries a criterion's id (`ac_01`)."""
    pattern = re.compile(rf"(?<![a-z0-9]){re.escape(criterion)}(?![0-9])")
    return sorted(name for name in names if pattern.search(name.rsplit("::", 1)[-1].lower()))


def named(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


class Outcome(IntEnum):
    """The outcome of a case; the worse, the higher."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2
    ERROR = 3

    @property
    def in_words(self) -> str:
        """The outcome in a report's words."""
        return self.name.lower()

    @property
    def is_bad(self) -> bool:
        """Whether the case ran and did not pass."""
        return self >= Outcome.FAILED


@frozen(kw_only=True)
class Case:
    """One case of a report.

    Attributes:
        name: Identifies it in every run.
        outcome: Its outcome.
        text: The report's text about a failure.
    """

    name: str
    outcome: Outcome
    text: str = field(default="", repr=False)


class UnreadableReport(ValueError):
    """A report is not valid.

    Attributes:
        problem: What is wrong with it, as the end of a sentence.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@frozen(kw_only=True)
class Outcomes:
    """All cases of a run, by name.

    Attributes:
        cases: Each name once: the worst of several cases with one name.
        duplicates: The names that occur more than once, with their counts.
    """

    cases: Mapping[str, Case] = field(hash=False)
    duplicates: Mapping[str, int] = field(hash=False)

    def having(self, *outcomes: Outcome) -> list[str]:
        """Return the names of the cases with one of these outcomes, sorted."""
        return sorted(name for name, case in self.cases.items() if case.outcome in outcomes)

    @property
    def bad(self) -> list[str]:
        """The names of the cases that failed, sorted."""
        return self.having(Outcome.FAILED, Outcome.ERROR)


def gathered(cases: Iterable[Case]) -> Outcomes:
    """Return the outcomes of all cases; for a shared name, the worst.

    Raises:
        UnreadableReport: There are too many cases.
    """
    worst: dict[str, Case] = {}
    counts: dict[str, int] = {}
    for number, case in enumerate(cases):
        if number >= MAX_CASES:
            raise UnreadableReport(f"holds more than {MAX_CASES:,} cases")
        counts[case.name] = counts.get(case.name, 0) + 1
        known = worst.get(case.name)
        if known is None or case.outcome > known.outcome:
            worst[case.name] = case
    return Outcomes(
        cases=MappingProxyType(worst),
        duplicates=MappingProxyType({name: many for name, many in counts.items() if many > 1}),
    )
